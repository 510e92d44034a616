/**
 * `npm run bench:recovery`: how fast events are replayed, how long a market with a million resting
 * orders takes to come back, from its log and from a snapshot, and the longest pause of that market
 * while a snapshot of it is taken: a probe asks without a break, and its longest wait is the pause.
 * The limit is 10 ms; the last line is the limit beside the pause.
 */

import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  commit,
  housekeep,
  type MarketThread,
  marketThread,
  newMarketThread,
  prepare,
} from '#actors/market-thread.ts'
import type { PackedEvent } from '#actors/packed-event.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import type { EventLog } from '#log/event-log.ts'
import { openSqliteLog } from '#log/sqlite-log.ts'
import { quick, report } from './bench.ts'
import { type FlowCommand, FlowRecorder } from './market-flow.ts'

const PAUSE_MS_MAX = 10
const RESTING = quick ? 200_000 : 1_000_000
const FLOW = quick ? 50_000 : 200_000
const BATCH = 1_000

type Hosted = { readonly log: EventLog<PackedEvent>; readonly thread: MarketThread }

function host(dataDir: string): Hosted {
  const log = openSqliteLog<PackedEvent>({ dataDir, partitions: 1, own: [0] })
  const rules = { selfTrade: 'allow' } as const
  const partitionOf = () => 0
  const snapshotEvery = Number.POSITIVE_INFINITY
  return { log, thread: newMarketThread({ log, partitionOf, rules, seed: 1, snapshotEvery }) }
}

/** One batch through the host: looked up, handled, made durable. */
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
  throw new Error('a market needs none of this')
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

const dataDir = mkdtempSync(join(tmpdir(), 'sibyl-recovery-'))
try {
  const recorder = new FlowRecorder(1, 1)
  let hosted = host(dataDir)
  for (const market of recorder.markets) {
    const said: MarketEvent[] = []
    const emit = (event: MarketEvent) => void said.push(event)
    const context = { nowMs: Date.now(), emit, pipe: none, after: none, defer: none, answer: none }
    marketThread.OpenMarket(hosted.thread, { market }, context)
    await commit(hosted.thread, said, context.nowMs)
  }
  let events = 1
  for (let placed = 0; placed < RESTING; placed += 50_000) {
    events += await runAll(hosted, recorder.resting(50_000))
  }
  events += await runAll(hosted, recorder.flow(FLOW))

  let seconds: number
  ;[hosted, seconds] = await reopened(dataDir, hosted)
  const orders = [...hosted.thread.markets.values()].reduce(
    (sum, { state }) => sum + state.books[0].count + state.books[1].count,
    0,
  )
  print(`replay: ${events} events in ${seconds.toFixed(2)} s, ${Math.round(events / seconds)}/s`)
  print(`recovery of ${orders} resting orders from the log: ${seconds.toFixed(2)} s`)

  // The disk is still busy with what the filling of the book left in the page cache.
  execFileSync('sync')

  // Between any two batches one step of the snapshot, as on the thread; the batch is small, as one
  // is whose client waits for it. What a client waits for both is the pause.
  const [marketId] = hosted.thread.markets.keys()
  hosted.thread.due.add(marketId!)
  const pauses: number[] = []
  const steps: number[] = []
  const stepsCpu: number[] = []
  const probe = recorder.flow(RESTING / 10)
  let at = 0
  const beganMs = performance.now()
  for (let more = true; more && at < probe.length; ) {
    const cpu = process.threadCpuUsage()
    const stepMs = performance.now()
    more = housekeep(hosted.thread)
    steps.push(performance.now() - stepMs)
    const { user, system } = process.threadCpuUsage(cpu)
    stepsCpu.push((user + system) / 1_000)
    await run(hosted, probe.slice(at, at + 10))
    at += 10
    pauses.push(performance.now() - stepMs)
    // The thread makes the same pause between two steps.
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
  const tookMs = performance.now() - beganMs
  const longest = Math.max(...steps)
  const worst = steps.toSorted((a, b) => b - a).slice(0, 5)
  print(
    `snapshot of ${orders} orders: ${tookMs.toFixed(0)} ms in ${pauses.length} steps while ` +
      `${at} commands ran; longest steps ${worst.map((ms) => ms.toFixed(2)).join(', ')} ms; ` +
      `most CPU of a step ${Math.max(...stepsCpu).toFixed(2)} ms; ` +
      `longest wait with a batch ${Math.max(...pauses).toFixed(2)} ms`,
  )
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
  rmSync(dataDir, { recursive: true, force: true })
}
