/**
 * One simulation: a seed decides the settings, the number of nodes, the rates of faults, and everything that happens.
 * After the given minutes the faults end. Then everything must be answered, current and equal to the log.
 */

import { loadSettings } from '#config/settings.ts'
import type { Settings } from '#config/settings-schema.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { expiresAtSec } from '#domain/order.ts'
import { START_SEC } from '../services/market/market-fixture.ts'
import { type Random, randomFrom } from '../support/random.ts'
import { Exchange, type SimulatedWorld } from './exchange.ts'
import { Faults } from './faults.ts'
import { Front } from './front.ts'
import { short } from './market-model.ts'
import { Oracle } from './oracle.ts'
import { Scheduler, Violation } from './scheduler.ts'
import { StoredPartition } from './stored-log.ts'
import { OperatorStub, ProjectorStub, SettlementStub } from './stubs.ts'

export type SimulationOptions = {
  readonly seed: number
  readonly minutes: number
  /** Drawn from the seed if undefined. */
  readonly kind?: SimulatedWorld['kind']
  /** Faults, or kinds of faults, that do not strike. */
  readonly suppressed?: ReadonlySet<string>
  /** Puts something between each market thread and its log. */
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

/** Virtual time after the last fault, in which everything must recover. */
const HEALING_US = 45_000_000
const SETTLING_US = 30_000_000

export async function simulate(options: SimulationOptions): Promise<SimulationResult> {
  const { seed, minutes, suppressed, print, between = (log) => log } = options
  const scheduler = new Scheduler(START_SEC * 1_000, print)
  const faults = new Faults(seed, scheduler, suppressed)
  const random = randomFrom(Math.imul(seed + 3, 0x85ebca77))
  const kind = options.kind ?? (random.chance(0.5) ? 'files' : 'server')
  const settings = settingsOf(kind, random)
  const oracle = new Oracle(scheduler, settings.matching.selfTrade)
  // A rejection without a handler would end a real thread.
  const fail = (error: unknown) => scheduler.fail(error)
  process.on('unhandledRejection', fail)
  // The error must not reach the thread, which would take it for a failed append.
  function landed(partition: number, events: readonly MarketEvent[]): void {
    try {
      oracle.landed(partition, events)
    } catch (error) {
      scheduler.fail(error)
    }
  }
  let error: unknown
  try {
    const truth = Array.from(
      { length: settings.markets.partitions },
      (_, at) => new StoredPartition(at, landed),
    )
    const world = { seed, scheduler, faults, random, settings, truth, kind, between }
    await run(world, oracle, minutes)
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

async function run(world: SimulatedWorld, oracle: Oracle, minutes: number): Promise<void> {
  const { scheduler, faults, random, kind } = world
  const fronts = Array.from(
    { length: random.int(1, 3) },
    (_, index) => new Front(world, oracle, index),
  )
  const operator = new OperatorStub(world, oracle)
  const settlement = new SettlementStub(world, oracle)
  const projector = new ProjectorStub(world, oracle)
  const peers = [...fronts, operator, settlement, projector]
  const exchange = new Exchange(world, peers, kind === 'server' ? random.int(2, 3) : 1)
  await scheduler.run(scheduler.nowUs + minutes * 60e6)

  scheduler.trace('the faults end')
  faults.healed = true
  operator.isOpening = false
  for (const front of fronts) front.isTrading = false
  await scheduler.run(scheduler.nowUs + HEALING_US)
  exchange.assertServes()
  settlement.life.alive = false
  operator.life.alive = false
  await scheduler.run(scheduler.nowUs + 1e6)
  assertExpired(oracle, scheduler)
  await allEnd(
    scheduler,
    fronts.map((front) => front.askAgain()),
  )
  await allEnd(
    scheduler,
    fronts.map((front) => front.compare()),
  )
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

/** The clock of a node is at most a minute behind; checks take a few seconds. */
const CLOCK_BEHIND_MS = 70_000

let defaults: Settings | undefined

function settingsOf(kind: 'files' | 'server', random: Random): Settings {
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
    chains: base.chains.map((chain) => ({ ...chain, rpcUrls: ['http://simulated'] })),
    risk: { ...base.risk, cooldownSeconds: random.pick([0, 5]) },
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
