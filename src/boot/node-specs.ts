/**
 * Selects the threads of a cluster node by the node's roles. Describes these threads for the bridge, the thread that
 * talks to other nodes.
 */

import type { ROLES } from '#config/schema/cluster.ts'
import type { Settings } from '#config/settings-schema.ts'
import type { ThreadData } from '#config/thread-data.ts'
import { ADMIN_THREAD, BRIDGE_THREAD, LOG_COPY_THREAD, marketThreadName } from '#config/topology.ts'
import type { ThreadSpec, WorkerSpec } from '#runtime/host.ts'
import type { BridgeData } from '#services/node/thread.ts'
import { threadSpecs, workerSpec, workersAhead } from './thread-specs.ts'

type Common = Omit<ThreadData, 'name' | 'index' | 'settings'>
type Role = (typeof ROLES)[number]

/** Role of each kind of thread. */
const ROLE_OF: Readonly<Record<string, Role>> = {
  ...{ front: 'front', market: 'market', store: 'store', prices: 'prices' },
  ...{ indexer: 'chain', relayer: 'chain', resolution: 'chain', settlement: 'chain' },
  ...{ accounts: 'chain', transparency: 'store' },
}

/**
 * Kinds of threads that read all partitions of the log. On a node, the log-copy thread copies the partitions
 * of other nodes for these threads.
 */
const READERS: ReadonlySet<string> = new Set(['store', 'accounts', 'transparency'])

type NodeSpecs = {
  /**
   * `threads` always run on this node. A thread of `onCall` may run on only one node at a time. The bridge thread
   * starts and stops it when this node gains or loses the right to run it.
   */
  readonly threads: readonly ThreadSpec[]
  readonly onCall: readonly ThreadSpec[]
}

export function nodeSpecs(settings: Settings, cores: number, common: Common): NodeSpecs {
  // On a node, threads start and stop separately, so each thread gets its own worker instead of a shared `host`.
  const all = threadSpecs(settings, cores, common).map(({ host: _, ...spec }) => spec)
  const isOurs = ({ kind }: ThreadSpec): boolean => hasRole(settings, ROLE_OF[kind]!)
  const fronts = all.filter((spec) => spec.kind === 'front' && isOurs(spec))
  const slots = all.filter(({ kind }) => kind !== 'front')
  const onCall = slots
    .filter(isOurs)
    .map((spec) =>
      READERS.has(spec.kind) ? { ...spec, links: [...spec.links, LOG_COPY_THREAD] } : spec,
    )
  const marketNames = slots.filter(({ kind }) => kind === 'market').map(({ name }) => name)
  const hasCopy = hasRole(settings, 'market') || onCall.some(({ kind }) => READERS.has(kind))
  const own = (kind: string, links: readonly string[]): ThreadSpec => ({
    ...{ ...workerSpec(kind, kind), kind, links, terminable: true },
    data: { ...common, name: kind, index: 0, settings } satisfies ThreadData,
  })
  const copies = hasCopy ? [own(LOG_COPY_THREAD, marketNames)] : []
  const bridge = own(BRIDGE_THREAD, [LOG_COPY_THREAD, ...fronts.map(({ name }) => name)])
  // A front also serves operators. On a node without a front, an admin thread serves them if `adminPort` is set. It
  // starts first and stops last. It is not terminable, because terminating a thread with an open uWebSockets.js app
  // would abort the process.
  const admin = isAskedApart(settings) ? [{ ...own(ADMIN_THREAD, []), terminable: false }] : []
  const plan: BridgeData['plan'] = {
    slots: slots.map(({ name }) => name),
    offers: onCall.map(({ name }) => name),
    threads: [...copies, ...fronts, ...onCall].map(({ name, links }) => ({ name, links })),
    hasCopy,
  }
  return {
    threads: [...admin, ...copies, { ...bridge, data: { ...bridge.data, plan } }, ...fronts],
    onCall,
  }
}

/** Returns whether operators are served by a separate thread. */
function isAskedApart(settings: Settings): boolean {
  return !hasRole(settings, 'front') && settings.front.adminPort !== 0
}

/**
 * Returns the workers that a node loads early, while its start waits for other steps. Some of these workers may be
 * needed only later.
 */
export function nodeWorkersAhead(settings: Settings, cores: number): WorkerSpec[] {
  const kinds = new Map(
    Array.from({ length: settings.markets.threads }, (_, at) => [marketThreadName(at), 'market']),
  )
  return [
    workerSpec(BRIDGE_THREAD, BRIDGE_THREAD),
    ...(isAskedApart(settings) ? [workerSpec(ADMIN_THREAD, ADMIN_THREAD)] : []),
    ...workersAhead(settings, cores).filter(({ name }) => {
      const kind = kinds.get(name) ?? (name.startsWith('front') ? 'front' : name)
      return kind in ROLE_OF && hasRole(settings, ROLE_OF[kind]!)
    }),
  ]
}

export function hasRole({ cluster }: Settings, role: Role): boolean {
  return cluster.roles.includes('all') || cluster.roles.includes(role)
}
