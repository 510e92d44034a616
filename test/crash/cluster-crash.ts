/**
 * Repeatedly makes faults in a cluster under load: nodes and servers are killed, paused, stopped or cut off.
 * Checks the answers, as `http-crash.ts` does with one process. Every front must show every accepted order
 * once. Each trade must have settled once, or be known to have failed. Readers of the stream must never have
 * a wrong book.
 */

import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { makeChainClient } from '#chain/clients.ts'
import { settlementContract } from '#chain/settlement-contract.ts'
import type { MarketId } from '#domain/ids.ts'
import { closeDatabase } from '#store/engine/database.ts'
import { openDatabase } from '#store/open-database.ts'
import { recentTrades } from '#store/reads/trades.ts'
import { eventually } from '../support/eventually.ts'
import { dealt, type Random, randomFrom } from '../support/random.ts'
import { settledTimes } from '../support/settled-times.ts'
import { startWitness, type WitnessReport } from './answer-witness.ts'
import { type Doors, type Errors, openDoors, type StreamMet, startLoad } from './cluster-load.ts'
import { FRONTS, NODES, openScene, type Scene } from './cluster-scene.ts'
import {
  type CrashReport,
  holdToAnswers,
  type Life,
  newReport,
  settleAccounts,
} from './http-crash.ts'

export const EVENTS = [
  ...(['market', 'pause', 'stop', 'cut', 'front', 'rest'] as const),
  ...(['nats', 'nats-pause', 'nats-split', 'database', 'database-pause', 'database-cut'] as const),
] as const
export type Event = (typeof EVENTS)[number] | 'roll'

export type ClusterReport = CrashReport & {
  /** Time from a fault until every affected market has accepted an order that was sent after the fault. */
  readonly servedMs: Map<Event, number[]>
  /** For each market that the failed node did not serve: the longest time without an accepted order after the fault. */
  readonly othersMs: Map<Event, number[]>
  /**
   * For each market: the longest time without an accepted order before the fault. Without a fault, this time depends
   * only on how often the load sends orders.
   */
  readonly calmMs: number[]
  readonly errors: Errors
  readonly stream: StreamMet
  /** Counts of the answers to clients about their own orders. A run with a wrong answer fails. */
  readonly witness: WitnessReport
  settled: { confirmed: number; failed: number; twice: number }
}

type CrashOptions = {
  readonly rounds: number
  readonly seed: number
  readonly galera: boolean
  /** Time for which a node must be ready before market threads that prefer this node move to it; 0 for never. */
  readonly rebalanceMs: number
  /** Silence after which a node counts as dead. */
  readonly silenceMs: number
  readonly events: readonly Event[]
  /** True to stop and restart every node one after the other, instead of making faults. */
  readonly rolling: boolean
  /** Time after which no further round begins. */
  readonly msMax: number
  readonly onRound?: (round: number, what: string, report: ClusterReport) => void
}

/** A fault in the cluster. `hit` causes the fault, and `mend` repairs it. */
type Blow = {
  readonly what: string
  /** The node whose market threads are affected; undefined if the fault affects all markets. */
  readonly node: string | undefined
  readonly hit: () => Promise<void>
  readonly mend: () => Promise<void>
}

/**
 * Errors that a planned restart may cause: an unknown outcome, after which the order is sent again, and a lost
 * connection.
 */
const HARMLESS = / (OUTCOME_UNKNOWN|NETWORK)$/

/** Duration of a pause. It is longer than the silence after which a node counts as dead. */
const PAUSE_MS = 3_000
const SERVER_AWAY_MS = 1_500
/** Duration of a network split: long enough for both sides to take over markets. */
const SPLIT_MS = 10_000
/**
 * Duration of the load before a fault, and its minimum duration after the fault. They are equal, so that the longest
 * pauses before and after the fault can be compared.
 */
const CALM_MS = 3_000

export async function crashCluster(options: CrashOptions): Promise<ClusterReport> {
  const random = randomFrom(options.seed)
  const report: ClusterReport = {
    ...newReport(),
    ...{ servedMs: new Map(), othersMs: new Map(), calmMs: [], errors: new Map() },
    stream: { messages: 0, resets: 0, gaps: 0, checksums: 0, reconnects: 0 },
    witness: { orders: 0, answers: 0, unknown: 0 },
    settled: { confirmed: 0, failed: 0, twice: 0 },
  }
  const scene = await openScene(options)
  const lives: Life[] = []
  let doors: Doors | undefined
  try {
    await untilReady(scene)
    doors = openDoors(scene, report.stream)
    const deal: (() => [Event, Blow])[] = options.rolling
      ? Object.keys(NODES).map((name) => () => ['roll', stopOf(scene, name)])
      : dealt(random, options.events, options.rounds).map((event) => () => [
          event,
          blowOf(event, scene, random),
        ])
    const endMs = performance.now() + options.msMax
    for (const [round, next] of deal.entries()) {
      if (performance.now() > endMs) break
      const [event, blow] = next()
      lives.push(...(await roundOf(event, blow, { scene, doors, random, report })))
      await doors.compare()
      report.kills++
      options.onRound?.(round + 1, `${event} ${blow.what}`, report)
    }
    doors.close()
    await settleAccounts(scene.nodes.get('front-a')!, lives, report, scene)
    await settleOnChain(scene, report)
    for (const [kind, { first }] of options.rolling ? report.errors : []) {
      assert(
        HARMLESS.test(kind),
        `a restart of nodes one by one refused an order: ${kind}, ${first}`,
      )
    }
    return report
  } catch (error) {
    const said = [...scene.nodes].map(([name, node]) => `== ${name}\n${node.output()}`)
    throw new Error(`--seed ${options.seed}: ${error}\n${said.join('\n')}`, { cause: error })
  } finally {
    doors?.close()
    await scene.close()
  }
}

async function untilReady({ nodes, pit }: Scene): Promise<void> {
  for (const name of FRONTS) {
    const { url } = nodes.get(name)!
    await eventually(async () => {
      const ready = await fetch(`${url}/readyz`)
      assert.equal(ready.status, 200, `${name}: ${await ready.text()}`)
      for (const id of pit.markets) {
        const market = await fetch(`${url}/api/v1/markets/${id}`)
        assert.equal(market.status, 200, `${name}: ${await market.text()}`)
      }
    })
  }
}

function stopOf({ nodes }: Scene, name: string): Blow {
  const node = nodes.get(name)
  assert(node !== undefined, `${name} is a node`)
  return { what: name, node: name, hit: () => node.stop(), mend: () => node.start() }
}

function blowOf(event: Event, scene: Scene, random: Random): Blow {
  const { nodes, nats, databases } = scene
  const owner = scene.ownerOf(random.pick(['market-0', 'market-1', 'market-2'])) ?? ''
  const after = (ms: number, undo: () => void | Promise<void>) => async () => {
    await pause(ms)
    await undo()
  }
  if (event === 'nats' || event === 'nats-pause') {
    const server = random.int(0, nats.count - 1)
    const base = { what: `nats-${server + 1}`, node: undefined }
    return event === 'nats'
      ? { ...base, hit: () => nats.kill(server), mend: after(SERVER_AWAY_MS, nats.heal) }
      : {
          ...base,
          hit: async () => nats.signal(server, 'SIGSTOP'),
          mend: after(PAUSE_MS, () => nats.signal(server, 'SIGCONT')),
        }
  }
  if (event === 'nats-split') {
    return {
      ...{ what: 'all routes', node: undefined },
      hit: async () => nats.split(),
      mend: after(SPLIT_MS, nats.join),
    }
  }
  if (event === 'database' || event === 'database-pause') {
    const server = random.int(0, databases.count - 1)
    const base = { what: `database-${server + 1}`, node: undefined }
    return event === 'database'
      ? {
          ...base,
          hit: () => databases.kill([server]),
          mend: after(SERVER_AWAY_MS, databases.heal),
        }
      : {
          ...base,
          hit: async () => databases.signal(server, 'SIGSTOP'),
          mend: after(PAUSE_MS, async () => {
            databases.signal(server, 'SIGCONT')
            await databases.heal()
          }),
        }
  }
  if (event === 'cut' || event === 'database-cut') {
    const name = random.chance(0.3) ? 'front-b' : owner
    const how = random.pick(['ended', 'silent'] as const)
    const wires = scene.wires(name, event === 'cut' ? 'nats' : 'database')
    return {
      ...{ what: `${name} ${how}`, node: name },
      hit: async () => wires.set(how),
      mend: after(PAUSE_MS, () => wires.set('whole')),
    }
  }
  const name =
    event === 'front' ? random.pick(FRONTS) : event === 'rest' ? scene.ownerOf('store') : owner
  const node = nodes.get(name ?? '')
  assert(name !== undefined && node !== undefined, `there is a node to hit: ${name}`)
  if (event === 'stop') return stopOf(scene, name)
  if (event === 'pause') {
    return {
      ...{ what: name, node: name },
      hit: async () => node.signal('SIGSTOP'),
      mend: after(PAUSE_MS, () => node.signal('SIGCONT')),
    }
  }
  return { what: name, node: name, hit: () => node.kill(), mend: () => node.start() }
}

/**
 * Runs one round: load before the fault, the fault and its repair, load until all markets accept orders again, and a
 * check of answers.
 */
async function roundOf(
  event: Event,
  blow: Blow,
  given: {
    readonly scene: Scene
    readonly doors: Doors
    readonly random: Random
    readonly report: ClusterReport
  },
): Promise<readonly Life[]> {
  const { scene, random, report } = given
  const { markets } = scene.pit
  const owners = new Map(markets.map((id) => [id, scene.ownerOf(scene.slotOf(id))]))
  const isOf = (id: MarketId, node: string | undefined): boolean => owners.get(id) === node
  const own = markets.filter((id) => isOf(id, blow.node))
  const concerned = own.length > 0 ? own : markets
  const load = startLoad({ ...given, errors: report.errors })
  const urls = FRONTS.map((name) => scene.nodes.get(name)!.url)
  const witness = startWitness(urls, scene.pit, report.witness)
  const longestPause = (id: MarketId, fromMs: number, untilMs: number): number =>
    longestGap(load.accepted.get(id) ?? [], fromMs, untilMs)
  await eventually(() => {
    for (const all of load.accepted.values()) assert(all.length > 0, 'every market takes orders')
  })
  const calmAtMs = performance.now()
  await pause(CALM_MS)
  const hitAtMs = performance.now()
  for (const id of markets) report.calmMs.push(longestPause(id, calmAtMs, hitAtMs))
  const done = blow.hit().then(blow.mend)
  done.catch(() => undefined)
  if (event === 'nats-split') {
    // A replaced owner of a market may give wrong answers until its next append, and the witness checks its answers. An
    // order would cause an append and end this state, so the load sends no orders during the split.
    load.rest(true)
    await done
    load.rest(false)
  }
  const served = new Map<MarketId, number>()
  await eventually(() => {
    for (const [id, all] of load.accepted) {
      const first = all.find(({ sentAtMs }) => sentAtMs > hitAtMs)
      if (first !== undefined && !served.has(id)) served.set(id, first.atMs - hitAtMs)
    }
    assert.equal(served.size, markets.length, 'every market accepts orders again')
  })
  const servedMs = Math.max(...concerned.map((id) => served.get(id) ?? 0))
  note(report.servedMs, event, servedMs)
  const untilMs = Math.max(hitAtMs + CALM_MS, performance.now())
  await pause(untilMs - performance.now())
  // The loss of a server affects all markets; the loss of a node without market threads affects none.
  const others = blow.node === undefined ? [] : markets.filter((id) => !isOf(id, blow.node))
  for (const id of others) note(report.othersMs, event, longestPause(id, hitAtMs, untilMs))
  if (event === 'roll') await done
  await load.end()
  await done
  await witness.end()
  await untilReady(scene)
  // Every front has each answered order once.
  await holdToAnswers(scene.nodes.get(random.pick(FRONTS))!, load.lives, report)
  return load.lives
}

function note(times: Map<Event, number[]>, event: Event, ms: number): void {
  times.set(event, [...(times.get(event) ?? []), ms])
}

function longestGap(
  accepted: readonly { readonly atMs: number }[],
  fromMs: number,
  untilMs: number,
): number {
  const times = accepted.map(({ atMs }) => atMs).filter((at) => at > fromMs && at < untilMs)
  return [...times, untilMs].reduce(
    ({ longest, last }, at) => ({ longest: Math.max(longest, at - last), last: at }),
    { longest: 0, last: fromMs },
  ).longest
}

/** Waits until no trade is pending, and checks that each confirmed trade settled on the chain once. */
async function settleOnChain(scene: Scene, { settled }: ClusterReport): Promise<void> {
  const { chain, pit } = scene
  const database = await openDatabase(scene.databaseUrl)
  try {
    const client = makeChainClient({ chainId: chain.settings.chainId, rpcUrls: [chain.url] })
    const address = pit.domain.verifyingContract
    const contract = settlementContract(client, address)
    const trades = await eventually(async () => {
      const all = await Promise.all(
        pit.markets.map((marketId) => recentTrades(database, { marketId, limit: 1_000_000 })),
      )
      const open = all.flat().filter(({ status }) => status !== 'confirmed' && status !== 'failed')
      assert.equal(open.length, 0, `${open.length} trades are under way`)
      return all.flat()
    }, 900_000)
    const times = await settledTimes(client, address)
    settled.twice = [...times.values()].filter((count) => count > 1).length
    assert.equal(settled.twice, 0, 'no trade has settled twice')
    for (const trade of trades) {
      const isConfirmed = trade.status === 'confirmed'
      const key = contract.tradeKeyOf(trade)
      assert.equal(times.get(key) ?? 0, isConfirmed ? 1 : 0, `${trade.tradeId} is ${trade.status}`)
      times.delete(key)
      if (isConfirmed) settled.confirmed++
      else settled.failed++
    }
    assert.deepEqual([...times.keys()], [], 'the chain knows of no other trade')
  } finally {
    await closeDatabase(database)
  }
}
