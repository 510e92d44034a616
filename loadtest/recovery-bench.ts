/**
 * `npm run bench -- recovery`: measures how fast events are replayed. It measures how long a market with a million
 * resting orders takes to recover, from its log and from a snapshot. It also measures the longest pause of that market
 * while nine snapshots of it are taken. A pause is a step of a snapshot, or the additional time that a batch or a timer
 * takes during a snapshot. The limit of a pause is 10 ms. Moments in which the host of a virtual machine withheld a
 * processor do not count. The output shows how many measurements remain.
 */

import { execFileSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, readSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { deserialize } from 'node:v8'
import { Worker } from 'node:worker_threads'
import { wrap } from 'comlink'
import type { MarketEvent } from '#domain/market-event.ts'
import type { EventLog } from '#log/event-log.ts'
import { PACKED } from '#log/packed-event.ts'
import { openSqliteLog } from '#log/partition/sqlite-log.ts'
import { monotonicMs } from '#runtime/clock.ts'
import { endpointOf } from '#runtime/endpoint.ts'
import { housekeep } from '#services/market/host/housekeeping.ts'
import { commit, prepare } from '#services/market/host/market-batch.ts'
import {
  type MarketThread,
  marketThread,
  newMarketThread,
} from '#services/market/host/market-host.ts'
import { processorTimes, quick, report } from './bench.ts'
import type { Flows } from './flow-thread.ts'
import type { FlowCommand } from './market-flow.ts'
import { ProcFile } from './proc-file.ts'

const PAUSE_MS_MAX = 10
const RESTING = quick ? 200_000 : 1_000_000
const FLOW = quick ? 50_000 : 200_000
const BATCH = 1_000
/** Batch sizes to measure, in commands. Each size is measured during three snapshots. */
const SIZES = [10, 100, 1_000]
const SNAPSHOTS = 3
const BATCHES_MAX = 500
const COMMANDS_MAX = 50_000
const BATCHES_AFTER = 50
const PAUSE_MS = 2

type Hosted = { readonly log: EventLog<MarketEvent>; readonly thread: MarketThread }

function host(dataDir: string): Hosted {
  const log = openSqliteLog({ form: PACKED, dataDir, partitions: 1, own: [0] })
  const rules = { selfTrade: 'allow' } as const
  const partitionOf = () => 0
  const snapshotEvery = Number.POSITIVE_INFINITY
  const options = { log, partitionOf, rules, seed: 1, snapshotEvery, monotonicMs }
  return { log, thread: newMarketThread(options) }
}

/**
 * Runs one batch through the host: looks up its orders and trades, handles its commands, and makes its events durable.
 */
async function run({ thread }: Hosted, batch: readonly FlowCommand[]): Promise<number> {
  const said: MarketEvent[] = []
  const nowMs = Date.now()
  const emit = (event: MarketEvent) => void said.push(event)
  const context = { nowMs, emit, pipe: none, after: none, defer: none, answer: none }
  prepare(thread, batch as never)
  for (const { type, message } of batch) marketThread[type](thread, message as never, context)
  if (said.length > 0) await commit(thread, said, nowMs)
  return said.length
}

function none(): never {
  throw new Error('the market called a function that this benchmark does not provide')
}

async function runAll(hosted: Hosted, commands: readonly FlowCommand[]): Promise<number> {
  let events = 0
  for (let from = 0; from < commands.length; from += BATCH) {
    events += await run(hosted, commands.slice(from, from + BATCH))
  }
  return events
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

async function reopened(dataDir: string, hosted: Hosted): Promise<[Hosted, seconds: number]> {
  await hosted.log.close()
  const startMs = performance.now()
  const back = host(dataDir)
  return [back, (performance.now() - startMs) / 1_000]
}

/**
 * The batches of all probes, in a file. In memory they would enlarge the heap, and the garbage collector would compete
 * with the market for the cores.
 */
class Tape {
  readonly #path: string
  #file: number | undefined
  #at = 0
  #buffer = Buffer.alloc(0)

  constructor(path: string) {
    this.#path = path
  }

  next(bytes: number): FlowCommand[] {
    this.#file ??= openSync(this.#path, 'r')
    if (this.#buffer.length < bytes) this.#buffer = Buffer.alloc(2 * bytes)
    readSync(this.#file, this.#buffer, 0, bytes, this.#at)
    this.#at += bytes
    return deserialize(this.#buffer.subarray(0, bytes))
  }

  skip(bytes: number): void {
    this.#at += bytes
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file)
  }
}

/**
 * Batches of one measurement, each of `size` commands. They were recorded in a file; the lists contain their lengths in
 * bytes. The batches run during a snapshot (`beside`), right after it (`after`), and without a snapshot (`without`).
 */
type Probe = {
  readonly size: number
  readonly beside: readonly number[]
  readonly after: readonly number[]
  readonly without: readonly number[]
}

/** Duration of the parts of one turn of a market, in milliseconds. */
type Turn = {
  readonly when: 'without' | 'during'
  /**
   * Duration of the snapshot's step. The step never waits, so if it took longer than its CPU time (`stepCpu`), other
   * programs used the core.
   */
  step: number
  stepCpu: number
  stepWaited: number
  batch: number
  /** Delay of the timer. It includes the garbage collector, which works between batches. */
  late: number
  /** Time that the host had withheld until the turn began. */
  readonly stolenBefore: number
}

function newTurn(when: Turn['when']): Turn {
  const stolenBefore = processorTimes().stolen
  return { when, step: 0, stepCpu: 0, stepWaited: 0, batch: 0, late: 0, stolenBefore }
}

/**
 * Takes a snapshot as a market thread does: in many steps, one between every two batches. Then measures more batches as
 * part of the snapshot, because the previous snapshot is still being removed in the background. Then measures the same
 * number of turns without a snapshot.
 */
async function probe(hosted: Hosted, tape: Tape, { beside, after, without }: Probe) {
  const turns: Turn[] = []
  const take = async (
    when: Turn['when'],
    bytes: number | undefined,
    work?: (turn: Turn) => void,
  ) => {
    const turn = newTurn(when)
    work?.(turn)
    if (bytes !== undefined) {
      const batch = tape.next(bytes)
      turn.batch = await timed(() => run(hosted, batch))
    }
    turn.late = await pause()
    turns.push(turn)
  }
  const [marketId] = hosted.thread.markets.keys()
  hosted.thread.due.add(marketId!)
  for (let more = true; more; ) {
    await take('during', beside[turns.length], (turn) => {
      const waitedMs = waitedForCoreMs()
      const cpu = process.threadCpuUsage()
      const stepMs = performance.now()
      more = housekeep(hosted.thread)
      turn.step = performance.now() - stepMs
      const { user, system } = process.threadCpuUsage(cpu)
      turn.stepCpu = (user + system) / 1_000
      turn.stepWaited = waitedForCoreMs() - waitedMs
    })
  }
  for (const bytes of beside.slice(turns.length)) tape.skip(bytes)
  for (const bytes of after) await take('during', bytes)
  const { length } = turns
  for (let turn = 0; turn < length; turn++) await take('without', without[turn])
  return turns
}

/**
 * Leaves out turns in which the host withheld a processor. The kernel may report this one turn late, so a turn is also
 * left out if withheld time was reported during the next turn.
 */
function undisturbed(turns: readonly Turn[]): Turn[] {
  return turns.filter(
    (turn, at) => turn.stolenBefore === (turns[at + 2] ?? turns.at(-1)!).stolenBefore,
  )
}

/** Prints the results for batches of a size; returns the longest pause. */
function evaluate(size: number, all: readonly Turn[], turns: readonly Turn[]): number {
  const during = turns.filter(({ when }) => when === 'during')
  const without = turns.filter(({ when }) => when === 'without')
  const most = (of: keyof Omit<Turn, 'when'>, among = during) =>
    among.map((turn) => turn[of]).toSorted((a, b) => b - a)
  const told = (values: readonly number[]) =>
    `${[0, 1, 2].map((at) => (values[at] ?? 0).toFixed(2)).join(', ')} ms`
  print(
    `${SNAPSHOTS} snapshots beside batches of ${size}, of ${all.length} turns ${turns.length} undisturbed: ` +
      `steps ${told(most('step'))}, their CPU ${told(most('stepCpu'))}, ` +
      `without a core ${told(most('stepWaited'))}; ` +
      `batches ${told(most('batch'))}, else ${told(most('batch', without))}; ` +
      `timers late by ${told(most('late'))}, else ${told(most('late', without))}`,
  )
  return Math.max(
    most('step')[0] ?? Number.NaN,
    (most('batch')[0] ?? Number.NaN) - (most('batch', without)[0] ?? Number.NaN),
    (most('late')[0] ?? Number.NaN) - (most('late', without)[0] ?? Number.NaN),
  )
}

const schedstat = new ProcFile('/proc/thread-self/schedstat')

/** Returns how long this thread waited for a core; only Linux reports it. */
function waitedForCoreMs(): number {
  return Number(schedstat.words()[1] ?? 0) / 1e6
}

/** Pauses as long as a market thread does between two steps; returns how much longer the pause took. */
async function pause(): Promise<number> {
  const beganMs = performance.now()
  await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
  return performance.now() - beganMs - PAUSE_MS
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startMs = performance.now()
  await work()
  return performance.now() - startMs
}

const recorder = new Worker(new URL('./flow-thread.ts', import.meta.url))
const flows = wrap<Flows>(endpointOf(recorder))
const dataDir = mkdtempSync(join(tmpdir(), 'sibyl-recovery-'))
const tapePath = join(dataDir, 'tape')
const tape = new Tape(tapePath)
try {
  let hosted = host(dataDir)
  for (const market of await flows.markets()) {
    const said: MarketEvent[] = []
    const emit = (event: MarketEvent) => void said.push(event)
    const context = { nowMs: Date.now(), emit, pipe: none, after: none, defer: none, answer: none }
    marketThread.OpenMarket(hosted.thread, { market }, context)
    await commit(hosted.thread, said, context.nowMs)
  }
  let events = 1
  for (let placed = 0; placed < RESTING; placed += 50_000) {
    events += await runAll(hosted, await flows.resting(50_000))
  }
  events += await runAll(hosted, await flows.flow(FLOW))
  const probes: Probe[] = []
  for (const size of SIZES) {
    const count = Math.min(BATCHES_MAX, COMMANDS_MAX / size)
    for (let snapshot = 0; snapshot < SNAPSHOTS; snapshot++) {
      probes.push({
        size,
        beside: await flows.record(tapePath, size, count),
        after: await flows.record(tapePath, size, BATCHES_AFTER),
        without: await flows.record(tapePath, size, count + BATCHES_AFTER),
      })
    }
  }
  // The recorder ends first: its garbage collector would use the cores that the market is measured on.
  await recorder.terminate()

  let seconds: number
  ;[hosted, seconds] = await reopened(dataDir, hosted)
  const orders = [...hosted.thread.markets.values()].reduce(
    (sum, { state }) => sum + state.books[0].count + state.books[1].count,
    0,
  )
  print(`replay: ${events} events in ${seconds.toFixed(2)} s, ${Math.round(events / seconds)}/s`)
  print(`recovery of ${orders} resting orders from the log: ${seconds.toFixed(2)} s`)

  // Waits until the data of the filled book is written from the page cache to the disk.
  execFileSync('sync')

  let longest = 0
  for (const size of SIZES) {
    const all: Turn[] = []
    const clean: Turn[] = []
    for (const each of probes.filter((probe) => probe.size === size)) {
      const turns = await probe(hosted, tape, each)
      all.push(...turns)
      clean.push(...undisturbed(turns))
    }
    longest = Math.max(longest, evaluate(size, all, clean))
  }
  ;[hosted, seconds] = await reopened(dataDir, hosted)
  print(`recovery of ${orders} resting orders from the snapshot: ${seconds.toFixed(2)} s`)
  await hosted.log.close()
  report({
    bench: 'the longest pause of a market while its snapshot is taken',
    figure: Math.round(longest * 1_000) / 1_000,
    unit: 'ms',
    peer: 'the limit',
    peerFigure: PAUSE_MS_MAX,
    ratio: Math.round((PAUSE_MS_MAX / longest) * 1_000) / 1_000,
    bar: 1,
  })
} finally {
  await recorder.terminate()
  tape.close()
  rmSync(dataDir, { recursive: true, force: true })
}
