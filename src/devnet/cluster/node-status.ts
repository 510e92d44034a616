/** Status of a node in a local cluster, for `npm run cluster -- status`. */

import type { ClusterNode } from './nodes.ts'

const ASK_TIMEOUT_MS = 2_000
const MARKET_THREAD = /^market-(\d+)$/
/**
 * Names of checks in `/readyz` that the status line does not show as parts of a node: checks that every node or every
 * front has, and checks that do not belong to a thread.
 */
const COMMON = new Set(['bridge', 'log-copy', 'admin', 'clock', 'markets', 'price sources'])

/** Checks by part, as returned by `/readyz` of a node. */
type Checks = Readonly<Record<string, { readonly ok: boolean; readonly why?: string }>>
export type NodeReport = {
  readonly node: Pick<ClusterNode, 'name' | 'roles' | 'url'>
  readonly state: 'down' | 'silent' | 'ready' | 'not ready'
  readonly isCut: boolean
  readonly checks: Checks
}
type Threads = { readonly marketThreads: number; readonly partitions: number }

/** Requests a node's state and the checks of its parts. */
export async function reportOf(node: ClusterNode): Promise<NodeReport> {
  const report = { node, isCut: node.isCut(), checks: {} }
  if (!node.isUp()) return { ...report, state: 'down' }
  try {
    const signal = AbortSignal.timeout(ASK_TIMEOUT_MS)
    const response = await fetch(`${node.url}/readyz`, { signal })
    const { checks } = (await response.json()) as { checks: Checks }
    return { ...report, checks, state: response.ok ? 'ready' : 'not ready' }
  } catch {
    return { ...report, state: 'silent' }
  }
}

/**
 * Returns a line for each node. If there are market threads that no reachable node serves, adds a line that lists them.
 */
export function statusLines(reports: readonly NodeReport[], threads: Threads): string[] {
  const served = new Set(
    reports.filter(({ isCut }) => !isCut).flatMap(({ checks }) => Object.keys(checks)),
  )
  const names = Array.from({ length: threads.marketThreads }, (_, index) => `market-${index}`)
  const unserved = names.filter((name) => !served.has(name))
  return [
    ...reports.map((report) => nodeLine(report, threads)),
    ...(unserved.length === 0
      ? []
      : [`unserved   ${unserved.map((name) => withPartitions(name, threads)).join(', ')}`]),
  ]
}

function nodeLine({ node, state, isCut, checks }: NodeReport, threads: Threads): string {
  const parts = Object.keys(checks).filter((name) => !COMMON.has(name))
  const serves = parts.map((name) => withPartitions(name, threads)).join(', ') || 'nothing now'
  const unwell = Object.entries(checks)
    .filter(([, { ok }]) => !ok)
    .map(([name, { why }]) => `${name}: ${why}`)
  return [
    `${node.name.padEnd(10)} ${state === 'silent' ? 'does not answer' : state}`,
    `roles ${node.roles}`,
    ...(isCut ? ['cut off from NATS and the database'] : []),
    ...(state === 'down' || state === 'silent' ? [] : [`at ${node.url}`, `serves ${serves}`]),
    ...unwell,
  ].join('; ')
}

/**
 * Adds the partitions of a market thread to its name; returns any other name unchanged. Partitions are
 * assigned to market threads in turn, as in `config/topology.ts`.
 */
function withPartitions(name: string, { marketThreads, partitions }: Threads): string {
  const [, thread] = MARKET_THREAD.exec(name) ?? []
  if (thread === undefined) return name
  const own = Array.from({ length: partitions }, (_, at) => at).filter(
    (partition) => partition % marketThreads === Number(thread),
  )
  return `${name} (${own.length === 1 ? 'partition' : 'partitions'} ${own.join(', ')})`
}
