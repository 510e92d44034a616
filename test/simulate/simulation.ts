/**
 * One simulation: a seed decides the settings, the number of nodes, the rates of faults, and everything that happens.
 * After the given minutes the faults end. Then every request must be answered, and all data must be current and equal
 * to the log.
 */

import assert from 'node:assert/strict'
import { accountOf } from '#chain/accounts.ts'
import { loadSettings } from '#config/settings.ts'
import type { Settings } from '#config/settings-schema.ts'
import { contractsOf } from '#config/thread-data.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { expiresAtSec } from '#domain/order.ts'
import { isRejection } from '#domain/rejection.ts'
import { START_SEC } from '../services/market/market-fixture.ts'
import { type Random, randomFrom } from '../support/random.ts'
import { ChainAudit } from './chain/audit.ts'
import { SimulatedChain } from './chain/chain.ts'
import { Contracts } from './chain/contracts.ts'
import { People } from './chain/people.ts'
import { runOnChain } from './chain-run.ts'
import { runCluster } from './cluster/cluster.ts'
import { emptyTables, journalledSender } from './database.ts'
import { Exchange, type Peer, type SimulatedWorld } from './exchange.ts'
import { Faults } from './faults.ts'
import { Front, TRADERS } from './front.ts'
import { short } from './market-model.ts'
import { Oracle } from './oracle.ts'
import { projectionFlaw } from './projected.ts'
import { reservationFlaw } from './reserved.ts'
import { Scheduler, Violation } from './scheduler.ts'
import { Services } from './services.ts'
import { StoredPartition } from './stored-log.ts'
import { OperatorStub, ProjectorStub, SettlementStub } from './stubs.ts'

export type SimulationOptions = {
  /** True to simulate only how the nodes of a cluster decide which node runs each thread, without an exchange. */
  readonly cluster?: boolean
  /** True if a run with services reserves the funds of orders; drawn from the seed if undefined. */
  readonly funds?: boolean
  readonly seed: number
  readonly minutes: number
  /** Drawn from the seed if undefined. */
  readonly kind?: SimulatedWorld['kind']
  /** Number of nodes that may own the markets; drawn from the seed if undefined. */
  readonly nodes?: number
  /** True if store and settlement are the real threads, on a simulated database and chain. */
  readonly services?: boolean
  /**
   * Scenario to simulate. `chain` simulates quick markets, indexing, resolution and relayed operations instead of
   * trading by fronts.
   */
  readonly scenario?: 'trading' | 'chain'
  /** Faults that do not happen: names of single faults, or whole kinds. */
  readonly suppressed?: ReadonlySet<string>
  /** Wraps the log that each market thread gets. */
  readonly between?: SimulatedWorld['between']
  /** Receives each line of the trace. */
  readonly print?: (line: string) => void
}

export type SimulationResult = {
  readonly seed: number
  /** Undefined if every invariant held. */
  readonly violation: { readonly invariant: string; readonly message: string } | undefined
  /** Faults that struck, in order. */
  readonly faults: readonly string[]
  /** Last lines of the trace, and the hash of all. */
  readonly trace: { readonly lines: readonly string[]; readonly hash: string }
  readonly virtualSeconds: number
  readonly acts: number
  readonly counts: Oracle['counts']
}

/** Everything must recover within this virtual time after the faults end. */
const HEALING_US = 45_000_000
const SETTLING_US = 30_000_000
/** Maximum wait at the end of a simulation until the chain has decided every trade. */
const DECIDING_US = 300_000_000

export async function simulate(options: SimulationOptions): Promise<SimulationResult> {
  const { seed, minutes, suppressed, print, between = (log) => log } = options
  const scheduler = new Scheduler(START_SEC * 1_000, print)
  const faults = new Faults(seed, scheduler, suppressed)
  const random = randomFrom(Math.imul(seed + 3, 0x85ebca77))
  const drawn = random.chance(0.5) ? 'files' : 'server'
  const kind = options.kind ?? (options.nodes === undefined ? drawn : 'server')
  const hasServices = options.services ?? random.chance(0.5)
  const settings = settingsOf(kind, random, hasServices, options.funds)
  const oracle = new Oracle(scheduler, settings.matching.selfTrade)
  // An unhandled rejection would end a real thread, so it fails the simulation.
  const fail = (error: unknown) => scheduler.fail(error)
  process.on('unhandledRejection', fail)
  // Passes durable events to the test oracle, which checks them. An error of a check must not reach the market thread,
  // which would treat the error as a failed append.
  function landed(partition: number, events: readonly MarketEvent[]): void {
    try {
      oracle.landed(partition, events)
    } catch (error) {
      scheduler.fail(error)
    }
  }
  let error: unknown
  try {
    if (options.cluster === true) {
      await runCluster({ seed, scheduler, faults }, { minutes, nodes: options.nodes })
    } else {
      const truth = Array.from(
        { length: settings.markets.partitions },
        (_, at) => new StoredPartition(at, landed),
      )
      const nodes = options.nodes ?? (kind === 'server' ? random.int(2, 3) : 1)
      const world = { seed, scheduler, faults, random, settings, truth, kind, nodes, between }
      if (options.scenario === 'chain') await runOnChain(world, oracle, minutes)
      else if (hasServices) await runWithServices(world, oracle, minutes)
      else await runWithStubs(world, oracle, minutes)
    }
  } catch (thrown) {
    error = thrown
  } finally {
    process.off('unhandledRejection', fail)
  }
  if (error !== undefined) scheduler.trace(`violation: ${messageOf(error)}`)
  return {
    seed,
    violation: error === undefined ? undefined : violationOf(error),
    faults: faults.struck,
    trace: scheduler.told,
    virtualSeconds: scheduler.seconds,
    acts: scheduler.acts,
    counts: oracle.counts,
  }
}

async function runWithStubs(world: SimulatedWorld, oracle: Oracle, minutes: number): Promise<void> {
  const settlement = new SettlementStub(world, oracle)
  const peers = [settlement, new ProjectorStub(world, oracle)]
  const run = await runWith(world, oracle, minutes, peers)
  settlement.life.alive = false
  await run.askAgain()
  await run.compare()
}

async function runWithServices(
  base: SimulatedWorld,
  oracle: Oracle,
  minutes: number,
): Promise<void> {
  const { seed, scheduler, faults, random, settings } = base
  const [at] = settings.chains
  assert(at !== undefined)
  const contracts = new Contracts({
    ...contractsOf(at),
    chainId: at.chainId,
    operator: accountOf(settings.keys.settlement).address,
  })
  const blockUs = random.pick([250_000, 1_000_000, 2_000_000])
  const { confirmations } = at
  const chain = new SimulatedChain({ seed, scheduler, faults, contracts, blockUs, confirmations })
  const people = new People(base, chain, TRADERS)
  const hasFunds = settings.risk.funds === 'reserve'
  const audit = new ChainAudit(scheduler, chain, { people, oracle, hasFunds })
  oracle.onEvent = (event) => audit.logged(event)
  const tables = await emptyTables(() => scheduler.nowMs)
  chain.onPooled = (hash) => {
    if (journalledSender(tables, hash) === undefined) {
      scheduler.fail(new Violation('journalled', `${hash} was sent before it was stored`))
    }
  }
  const world = { ...base, people, chain, tables, isBalanced: random.chance(0.5), hasFunds }
  const services = new Services(world, [
    ...(['store', 'settlement'] as const),
    ...(settings.cluster.roles.includes('all') ? [] : (['settlement'] as const)),
    ...(hasFunds ? (['accounts-0'] as const) : []),
  ])
  const run = await runWith(world, oracle, minutes, services.all, (exchange, fronts) => {
    services.relink = (peer) => exchange.relink(peer)
    services.setFronts(fronts)
  })
  people.isMoving = false
  await run.askAgain()
  await settled(scheduler, audit)
  services.finish('settlement')
  await run.compare()
  await projectedAgain(scheduler, () => projectionFlaw(tables, oracle))
  if (hasFunds) await reservedAgain(scheduler, run.fronts[0]!, { oracle, chain })
}

/** Runs the exchange for `minutes` with faults, then for `HEALING_US` without faults. */
async function runWith(
  world: SimulatedWorld,
  oracle: Oracle,
  minutes: number,
  others: readonly Peer[],
  made: (exchange: Exchange, fronts: readonly Front[]) => void = () => {},
): Promise<{
  readonly fronts: readonly Front[]
  askAgain(): Promise<void>
  compare(): Promise<void>
}> {
  const { scheduler, faults, random } = world
  const fronts = Array.from(
    { length: random.int(1, 3) },
    (_, index) => new Front(world, oracle, index),
  )
  const operator = new OperatorStub(world, oracle)
  const peers = [...fronts, operator, ...others]
  const exchange = new Exchange(world, peers)
  made(exchange, fronts)
  await scheduler.run(scheduler.nowUs + minutes * 60e6)

  scheduler.trace('the faults end')
  faults.healed = true
  operator.isOpening = false
  for (const front of fronts) front.isTrading = false
  await scheduler.run(scheduler.nowUs + HEALING_US)
  exchange.assertServes()
  operator.life.alive = false
  return {
    fronts,
    async askAgain() {
      await scheduler.run(scheduler.nowUs + 1e6)
      assertExpired(oracle, scheduler)
      await allEnd(
        scheduler,
        fronts.map((front) => front.askAgain()),
      )
    },
    async compare() {
      // The database catches up with the log within 5 s.
      await scheduler.run(scheduler.nowUs + 5e6)
      await allEnd(
        scheduler,
        fronts.map((front) => front.compare()),
      )
    },
  }
}

/** Waits until every trade is confirmed and settled, or failed. */
async function settled(scheduler: Scheduler, audit: ChainAudit): Promise<void> {
  const untilUs = scheduler.nowUs + DECIDING_US
  while (audit.undecided().length > 0 && scheduler.nowUs < untilUs) {
    await scheduler.run(scheduler.nowUs + 2e6)
  }
  const [first, ...more] = audit.undecided()
  if (first !== undefined) throw new Violation('decides', `${first}, and ${more.length} others`)
}

/** Waits until the database equals the log. */
async function projectedAgain(
  scheduler: Scheduler,
  flawOf: () => string | undefined,
): Promise<void> {
  const untilUs = scheduler.nowUs + SETTLING_US
  while (flawOf() !== undefined && scheduler.nowUs < untilUs) {
    await scheduler.run(scheduler.nowUs + 1e6)
  }
  const flaw = flawOf()
  if (flaw !== undefined) throw new Violation('projected', flaw)
}

/** Waits until every trader's reservations equal the amounts that the trader's open orders and pending trades need. */
async function reservedAgain(
  scheduler: Scheduler,
  front: Front,
  { oracle, chain }: { readonly oracle: Oracle; readonly chain: SimulatedChain },
): Promise<void> {
  const untilUs = scheduler.nowUs + SETTLING_US
  for (const trader of TRADERS) {
    for (;;) {
      let flaw: string | undefined = 'no answer'
      await allEnd(scheduler, [
        front.fundsOf(trader).then((view) => {
          flaw = isRejection(view) ? view.rejected : reservationFlaw(view, oracle, chain)
        }),
      ])
      if (flaw === undefined) break
      if (scheduler.nowUs > untilUs) throw new Violation('reserved', flaw)
      await scheduler.run(scheduler.nowUs + 1e6)
    }
  }
}

async function allEnd(scheduler: Scheduler, works: readonly Promise<void>[]): Promise<void> {
  let left = works.length
  for (const work of works) {
    work.then(
      () => left--,
      (error) => scheduler.fail(error),
    )
  }
  const untilUs = scheduler.nowUs + SETTLING_US
  while (left > 0 && scheduler.nowUs < untilUs) await scheduler.run(scheduler.nowUs + 100_000)
  if (left > 0) throw new Violation('answers', `${left} fronts still wait for answers`)
}

/** Expired orders leave the book. */
function assertExpired(oracle: Oracle, { nowMs }: Scheduler): void {
  for (const { orders } of oracle.markets.values()) {
    for (const [orderHash, { order, ended }] of orders) {
      const overdueMs = nowMs - 1_000 * expiresAtSec(order.expiration)
      if (ended === undefined && overdueMs > CLOCK_BEHIND_MS) {
        throw new Violation('expires', `${short(orderHash)} is overdue by ${overdueMs} ms`)
      }
    }
  }
}

/**
 * Maximum time for which an expired order may stay open. A node's clock is at most a minute behind, and the exchange
 * notices an expiration within a few seconds.
 */
const CLOCK_BEHIND_MS = 70_000

let defaults: Settings | undefined

function settingsOf(
  kind: 'files' | 'server',
  random: Random,
  hasServices: boolean,
  hasFunds?: boolean,
): Settings {
  defaults ??= loadSettings({ SIBYL_LOG_LEVEL: 'silent', SIBYL_DATA_DIR: '/simulated' })
  const base = defaults
  const partitions = random.int(1, 3)
  const snapshotEvery = random.pick([10, 40, 1_000])
  return {
    ...base,
    demoMarkets: false,
    markets: { ...base.markets, threads: 1, partitions, snapshotEvery },
    matching: { selfTrade: random.pick(['allow', 'cancel-resting'] as const) },
    keys: { ...base.keys, settlement: `0x${'01'.repeat(32)}` },
    chains: base.chains.map((chain) => ({
      ...chain,
      rpcUrls: ['http://simulated'],
      confirmations: random.pick([0, 1, 3]),
    })),
    risk: {
      ...base.risk,
      cooldownSeconds: random.pick([0, 5]),
      ...(hasServices && (random.chance(0.5) || hasFunds) && hasFunds !== false
        ? { funds: 'reserve', threads: 1 }
        : {}),
    },
    front: { ...base.front, deadlineMs: random.pick([1_000, 10_000]) },
    eventLog: { ...base.eventLog, url: kind === 'server' ? 'mysql://simulated' : '' },
    ...(kind === 'server' ? { cluster: { ...base.cluster, roles: ['market'] } } : {}),
  } as Settings
}

function violationOf(error: unknown): { invariant: string; message: string } {
  const invariant = error instanceof Violation ? error.invariant : 'no-bug'
  return { invariant, message: messageOf(error) }
}

function messageOf(error: unknown): string {
  if (error instanceof Violation) return error.message
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}
