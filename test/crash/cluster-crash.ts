/**
 * Kills, pauses and stops the nodes of a cluster under load over HTTP, again and again, and holds it to what it
 * answered, as `http-crash.ts` does with one process: through any front every accepted order is there, and none
 * is there twice. A reader of the stream has the books of a front all the time: it is told where it has missed
 * something, and is never wrong.
 */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { createClient } from '#client/client.ts'
import { SibylError } from '#client/sibyl-error.ts'
import type { Beat } from '#cluster/directory.ts'
import { openNodeLine } from '#cluster/node-line.ts'
import { openNode, sharedBy } from '../support/cluster.ts'
import { onServer, TEST_MYSQL_URL } from '../support/databases.ts'
import { eventually } from '../support/eventually.ts'
import type { Exchange } from '../support/exchange.ts'
import { openNats } from '../support/nats.ts'
import { dealt, type Random, randomFrom } from '../support/random.ts'
import { demoMarketIds } from '../support/seeded-markets.ts'
import {
  type CrashReport,
  holdToAnswers,
  type Life,
  makeOrders,
  newReport,
  settleAccounts,
} from './http-crash.ts'

export const EVENTS = ['market', 'pause', 'stop', 'front', 'rest', 'nats'] as const
export type Event = (typeof EVENTS)[number]

export type ClusterReport = CrashReport & {
  /** From each event until every market has accepted an order that was sent after it. */
  readonly servedMs: Map<Event, number[]>
  /** Orders that were refused with the word that nothing was done. */
  refused: number
  /** What a reader of the stream met: new starts that it was told of, and what it found out by itself. */
  readonly stream: { deltas: number; resets: number; gaps: number; checksums: number }
}

/** What happens to a node, and how it is undone. */
type Blow = { readonly hit: () => Promise<void>; readonly mend: () => Promise<void> }

const REST = 'store,chain,prices'
const LANES = 8
const ORDERS = 80
/** Longer than a silence that makes a node count as gone. */
const PAUSE_MS = 3_000

export async function crashCluster(options: {
  readonly rounds: number
  readonly seed: number
  readonly events: readonly Event[]
  readonly onRound?: (round: number, event: Event, report: ClusterReport) => void
}): Promise<ClusterReport> {
  const random = randomFrom(options.seed)
  const report: ClusterReport = {
    ...newReport(),
    ...{ servedMs: new Map(), refused: 0 },
    stream: { deltas: 0, resets: 0, gaps: 0, checksums: 0 },
  }
  const names = ['log', 'db'].map((kind) => `sibyl_crash_${kind}_${randomBytes(4).toString('hex')}`)
  const [logUrl = '', databaseUrl = ''] = names.map((name) => `${TEST_MYSQL_URL}/${name}`)
  for (const name of names) await onServer(`create database ${name}`)
  const nats = await openNats()
  const shared = { ...sharedBy(nats, logUrl, databaseUrl), SIBYL_MARKET_THREADS: '2' }
  const nodes = new Map<string, Exchange>()
  const lives: Life[] = []
  const beats = await followBeats(nats.url)
  try {
    await Promise.all(
      [
        ...[['front-a', 'front'] as const, ['front-b', 'front'] as const],
        ...[['books-a', 'market'] as const, ['books-b', 'market'] as const],
        ...[['rest-a', REST] as const, ['rest-b', REST] as const],
      ].map(async ([name, roles]) => nodes.set(name, await openNode(shared, name, roles))),
    )
    const reader = readBooks(nodes.get('front-a')!.url, report)
    const deal = dealt(random, options.events, options.rounds)
    for (const [round, event] of deal.entries()) {
      const batch = await makeOrders(random, ORDERS)
      const blow = blowOf(event, { nodes, nats, beats, random })
      lives.push(...batch)
      await roundOf(batch, event, { blow, nodes, random, report })
      await reader.compare()
      report.kills++
      options.onRound?.(round + 1, event, report)
    }
    reader.close()
    await settleAccounts(nodes.get('front-a')!, lives, report, databaseUrl)
    return report
  } catch (error) {
    const said = [...nodes].map(([name, node]) => `== ${name}\n${node.output()}`)
    throw new Error(`--seed ${options.seed}: ${error}\n${said.join('\n')}`, { cause: error })
  } finally {
    await beats.close()
    for (const node of nodes.values()) await node.dispose()
    await nats.dispose()
    for (const name of names) await onServer(`drop database if exists ${name}`)
  }
}

/** Keeps the books by the stream of a front that lives all the time. */
function readBooks(url: string, { stream: met }: ClusterReport) {
  const client = createClient({ url, timeoutMs: 60_000 })
  const stream = client.stream()
  stream.on('reset', () => met.resets++)
  stream.on('gap', () => met.gaps++)
  stream.on('checksum', () => met.checksums++)
  const kept = demoMarketIds()
    .slice(0, 2)
    .flatMap((marketId) => (['YES', 'NO'] as const).map((outcome) => ({ marketId, outcome })))
    .map((what) => ({ ...what, book: stream.book(what, () => met.deltas++).book }))
  return {
    /** When all is quiet, what was streamed is what a front answers. */
    async compare(): Promise<void> {
      for (const { marketId, outcome, book } of kept) {
        await eventually(async () => {
          const { bids, asks } = await client.orderbook(marketId, outcome)
          assert.deepEqual([book.bids(), book.asks()], [bids, asks])
        })
      }
    },
    close: () => stream.close(),
  }
}

/** What the nodes say of themselves, by the line that they have among themselves. */
async function followBeats(url: string) {
  const claims = new Map<string, { node: string; epoch: number }>()
  const line = await openNodeLine({
    ...{ url, credsFile: '', name: 'crash' },
    ...{ lost() {}, back() {} },
  })
  line.subscribe('sibyl.beat', (bytes) => {
    const beat = JSON.parse(Buffer.from(bytes).toString()) as Beat
    for (const { slot, epoch } of beat.claims) {
      if ((claims.get(slot)?.epoch ?? 0) <= epoch) claims.set(slot, { node: beat.node, epoch })
    }
  })
  return { ownerOf: (slot: string) => claims.get(slot)?.node, close: () => line.close() }
}

function blowOf(
  event: Event,
  given: {
    readonly nodes: ReadonlyMap<string, Exchange>
    readonly nats: Awaited<ReturnType<typeof openNats>>
    readonly beats: Awaited<ReturnType<typeof followBeats>>
    readonly random: Random
  },
): Blow {
  const { nodes, nats, beats, random } = given
  if (event === 'nats') return { hit: () => nats.kill(), mend: () => nats.start() }
  const slot = event === 'rest' ? 'store' : random.pick(['market-0', 'market-1'])
  const name = event === 'front' ? 'front-b' : beats.ownerOf(slot)
  const node = nodes.get(name ?? '')
  assert(node !== undefined, `${slot} has an owner`)
  if (event === 'pause') {
    return {
      hit: async () => node.signal('SIGSTOP'),
      async mend() {
        await pause(PAUSE_MS)
        node.signal('SIGCONT')
      },
    }
  }
  return { hit: () => (event === 'stop' ? node.stop() : node.kill()), mend: () => node.start() }
}

/** Orders through both fronts; in the midst of them the blow; then new ones until all markets take them. */
async function roundOf(
  batch: readonly Life[],
  event: Event,
  given: {
    readonly blow: Blow
    readonly nodes: ReadonlyMap<string, Exchange>
    readonly random: Random
    readonly report: ClusterReport
  },
): Promise<void> {
  const { blow, nodes, random, report } = given
  const fronts = ['front-a', 'front-b'].map((name) => {
    return createClient({ url: nodes.get(name)!.url, retries: 0, timeoutMs: 60_000 })
  })
  const hitAt = random.int(10, ORDERS / 2)
  const served = new Map<string, number>()
  const markets = new Set(batch.map(({ marketId }) => marketId))
  let next = 0
  let hitAtMs = Number.POSITIVE_INFINITY
  let blown: Promise<void> = Promise.resolve()

  async function lane(at: number): Promise<void> {
    for (;;) {
      const life = batch[next++]
      if (life === undefined) return
      if (next === hitAt) {
        hitAtMs = performance.now()
        blown = blow.hit()
        // A server that is away makes nodes wait for it; there is nothing to take over.
        if (event === 'nats') blown = blown.then(() => blow.mend())
      }
      await submit(life, at)
    }
  }

  async function submit(life: Life, at: number): Promise<boolean> {
    // A front that is dead answers nobody: who used it goes to the other.
    const client = fronts[event === 'front' && hitAtMs < Infinity ? 0 : at % fronts.length]!
    const sentAtMs = performance.now()
    try {
      const placed = await client.orders.submit(life.submission)
      life.answer = { matches: placed.matches, timestamp: placed.timestamp }
      if (sentAtMs > hitAtMs && !served.has(life.marketId)) {
        served.set(life.marketId, performance.now() - hitAtMs)
      }
      return true
    } catch (error) {
      assert(error instanceof SibylError, String(error))
      if (!error.outcomeUnknown) report.refused++
      const known = ['NETWORK', 'UNEXPECTED_ANSWER', 'OUTCOME_UNKNOWN', 'OVERLOADED']
      assert(known.includes(error.code), `${error.code}: ${error.message}`)
      return false
    }
  }

  await Promise.all(Array.from({ length: LANES }, (_, at) => lane(at)))
  // Those without an answer are sent again until each market has served.
  for (const marketId of markets) {
    const own = batch.filter((life) => life.marketId === marketId)
    await eventually(async () => assert(served.has(marketId) || (await submit(own[0]!, 0))))
    if (!served.has(marketId)) served.set(marketId, performance.now() - hitAtMs)
  }
  const all = report.servedMs.get(event) ?? []
  report.servedMs.set(event, [...all, Math.max(...served.values())])
  await blown
  if (event !== 'nats') await blow.mend()
  // Whoever is asked: what was answered is there, once.
  const front = nodes.get(random.pick(['front-a', 'front-b']))!
  await eventually(async () => {
    const ready = await fetch(`${front.url}/readyz`)
    assert.equal(ready.status, 200, await ready.text())
  })
  await holdToAnswers(front, batch, report)
}
