/**
 * One run of the load tester against a running exchange. It reads the exchange's state, signs every order of the plan,
 * opens the sockets, and carries out the plan at its intended times. Then it waits until the exchange is quiet, and
 * checks that the answers, the messages of the sockets and the exchange's state agree. If a step fails, the report
 * contains the figures until then and the reason.
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import type { TokenKey } from './bearer-tokens.ts'
import { carryOut, operatorOf } from './carry-out.ts'
import { canFund, fundTraders } from './fund-traders.ts'
import { Histogram } from './histogram.ts'
import { type Driver, openDriver } from './http-driver.ts'
import { type LoadOptions, TargetError } from './options.ts'
import { type OrderTape, recordOrders, traderName } from './order-tape.ts'
import { type PlannedRun, workloadOf } from './profiles/all.ts'
import { Recorder } from './recorder.ts'
import {
  commitText,
  type LoadReport,
  machineText,
  type SecondReport,
  type StageSample,
} from './report.ts'
import { type ServerMetrics, stagesBetween } from './server-metrics.ts'
import { type Trader, traderNamed } from './signed-orders.ts'
import type { WatchFacts, WatchFigures } from './stream-watch.ts'
import {
  openTarget,
  readBooks,
  readMetrics,
  readTold,
  reasonOf,
  registerKeys,
  type Target,
} from './target.ts'
import { type Check, checkTruth, isTrue } from './truth.ts'
import { startWatch, type Watch } from './watch.ts'
import { planOf } from './workload.ts'

export type LoadProgress = {
  /** Reports the progress of a long step, such as funding the traders. */
  readonly say?: (text: string) => void
  readonly second?: (second: SecondReport, errors: ReadonlyMap<string, number>) => void
  /** Ends the run early, with a report. */
  readonly signal?: AbortSignal
  /** Maximum time for the exchange's answers to become consistent after the run. */
  readonly quietMs?: number
}

const SAMPLES = 60
const DRAIN_MS_MAX = 15_000
const QUIET_MS_MAX = 20_000
/** If no connection is open for this long, the run ends, because the exchange has probably stopped. */
const GONE_MS = 2_000
/** Maximum lateness (p99) of the tester's own sending. If it is exceeded, the tester's figures are not reliable. */
const LATENESS_P99_MS_MAX = 20
const BUSY_MAX = 0.9
const BUSY_SECONDS_SHARE_MAX = 0.1
/**
 * Minimum share of the planned operations that must be answered by the end of the plan. Below it, the report says that
 * the exchange did not keep up.
 */
const HELD_SHARE = 0.98
const HELD_SLACK_MS = 500

export async function runLoad(
  options: LoadOptions,
  progress: LoadProgress = {},
): Promise<LoadReport> {
  const startedAtMs = Date.now()
  const say = progress.say ?? (() => undefined)
  const recorder = new Recorder()
  const seconds: SecondReport[] = []
  const samples: StageSample[] = []
  const streamLag = new Histogram()
  const lateness = new Histogram()
  const folder = await mkdtemp(join(tmpdir(), 'sibyl-load-'))
  const { out: _out, ...shownOptions } = options
  const run: PlannedRun = {
    profile: options.profile,
    seed: options.seed,
    rate: options.rate,
    seconds: options.seconds,
    markets: options.markets,
    traders: options.traders,
  }
  let target: Target | undefined
  let tape: OrderTape | undefined
  let driver: Driver | undefined
  let watch: Watch | undefined
  let before: ServerMetrics | undefined
  let after: ServerMetrics | undefined
  let last: ServerMetrics | undefined
  let serverCores = 0
  let watched: WatchFacts | undefined
  let figures: WatchFigures | undefined
  let truth: Check[] = []
  let ended = ''
  let funded = ''
  let beganMs = 0
  let secondsRun = 0
  let answeredInTime = 0
  let signedPerSecond = 0
  let idle = performance.eventLoopUtilization()
  const cpuBefore = process.cpuUsage()

  try {
    target = await openTarget(options.url, options.markets, options.seconds + 120)
    const { url, domain, markets } = target
    const planned = { ...run, markets: markets.length }
    const salt = `${startedAtMs}:${process.pid}`
    const traders = Array.from({ length: run.traders }, (_, trader) =>
      traderNamed(traderName({ run: planned, salt }, trader)),
    )

    say('signing orders')
    const signingMs = performance.now()
    const expirationSec = Math.floor(startedAtMs / 1_000) + Math.ceil(run.seconds) + 86_400
    tape = await recordOrders(
      { run: planned, domain, markets, salt, expirationSec, folder },
      (signed) => say(`signing orders: ${signed}`),
    )
    signedPerSecond = (tape.orders * 1_000) / (performance.now() - signingMs)

    let keys: TokenKey[] | undefined
    if (target.bearer) {
      say(`registering ${traders.length} API keys`)
      keys = await registerKeys(url, traders)
    }

    funded = await provide({ target, traders, say })
    say(`opening ${options.connections} connections and ${options.sockets} sockets`)
    driver = await openDriver(url, options.connections)
    watch = startWatch()
    await watch.open(url, markets, traders, options.sockets)
    const booksWereEmpty = (await readBooks(target)).every((outcomes) =>
      outcomes.every(({ bids, asks }) => bids.length === 0 && asks.length === 0),
    )
    before = await readMetrics(url)
    last = before

    const operate = operatorOf({ target, driver, recorder, tape, traders, keys })
    beganMs = performance.now()
    const sampleEvery = Math.max(2, Math.ceil(options.seconds / SAMPLES))
    let goneSinceMs = 0
    let sampledSecond = 0

    let tickedMs = beganMs
    const tick = async (): Promise<void> => {
      if (target === undefined || watch === undefined || driver === undefined) return
      const second = (performance.now() - beganMs) / 1_000
      figures = await watch.figures()
      const lag = Histogram.from(figures.lag)
      streamLag.add(lag)
      if (second - sampledSecond >= sampleEvery) {
        sampledSecond = second
        const now = await readMetrics(url)
        if (now !== undefined && last !== undefined) {
          serverCores = ((now.cpuSeconds - last.cpuSeconds) * 1_000) / (now.atMs - last.atMs)
          samples.push({ second, stages: stagesBetween(last, now) })
          last = now
        }
      }
      const now = performance.eventLoopUtilization()
      const busy = performance.eventLoopUtilization(now, idle).utilization
      idle = now
      const { due, answered, errors, latency } = recorder.takeInterval()
      // On a busy machine a tick comes late and covers more than a second. So its counts are divided by the time that
      // really passed.
      const tookMs = performance.now() - tickedMs
      tickedMs += tookMs
      const perSecond = (count: number): number => (count * 1_000) / tookMs
      const report: SecondReport = {
        second,
        due: perSecond(due),
        answered: perSecond(answered),
        errors: perSecond(errors),
        p50Ms: finite(latency.quantileMs(0.5)),
        p99Ms: finite(latency.quantileMs(0.99)),
        waiting: driver.unanswered,
        sockets: figures.sockets,
        messages: figures.messages,
        streamP99Ms: finite(lag.quantileMs(0.99)),
        serverCores,
        testerBusy: Math.max(busy, figures.busy),
      }
      seconds.push(report)
      progress.second?.(report, recorder.errors())
    }

    ended = await carryOut({
      plan: planOf(workloadOf(planned)),
      beganMs,
      lateness,
      operate,
      tick,
      signal: progress.signal,
      trouble() {
        if (driver === undefined || driver.connected > 0) {
          goneSinceMs = 0
          return ''
        }
        goneSinceMs ||= performance.now()
        if (performance.now() - goneSinceMs < GONE_MS) return ''
        const atSec = ((goneSinceMs - beganMs) / 1_000).toFixed(1)
        return `the exchange went away after ${atSec} s: ${driver.trouble || 'all connections closed'}`
      },
    })
    answeredInTime = recorder.answered
    secondsRun = (performance.now() - beganMs) / 1_000

    if (ended === '') {
      say('waiting for the last answers')
      const endMs = performance.now() + DRAIN_MS_MAX
      while (driver.unanswered > 0 && performance.now() < endMs) await pause(20)
      after = await readMetrics(url)
      say('comparing what was said')
      const quietMs = progress.quietMs ?? QUIET_MS_MAX
      truth = await compare({ target, watch, traders, recorder, booksWereEmpty, quietMs })
    } else after = await readMetrics(url)
    watched = await watch.facts()
  } catch (error) {
    if (error instanceof TargetError) throw error
    ended = explain(reasonOf(error), options)
    if (beganMs > 0) secondsRun = (performance.now() - beganMs) / 1_000
    watched = await watch?.facts().catch(() => undefined)
  } finally {
    driver?.close()
    await watch?.close()
    await tape?.close()
    await rm(folder, { recursive: true, force: true })
  }

  const planned = recorder.planned
  const slack = (options.rate * HELD_SLACK_MS) / 1_000
  const spent = process.cpuUsage(cpuBefore)
  const serverEnd = after ?? last
  const cpuSeconds =
    before === undefined || serverEnd === undefined ? 0 : serverEnd.cpuSeconds - before.cpuSeconds
  const busySeconds = seconds.filter(({ testerBusy }) => testerBusy > BUSY_MAX).length
  return {
    format: 1,
    startedAt: new Date(startedAtMs).toISOString(),
    machine: machineText(),
    commit: commitText(),
    options: shownOptions,
    marketsUsed: target?.markets.length ?? 0,
    ended,
    funds: funded,
    secondsRun,
    rate: {
      planned: planned / Math.max(1, secondsRun),
      answered: answeredInTime / Math.max(1, secondsRun),
      held: answeredInTime + slack >= planned * HELD_SHARE && ended === '',
    },
    kinds: recorder.report(),
    seconds,
    stream: {
      sockets: figures?.sockets ?? 0,
      messages: watched?.messages ?? figures?.messages ?? 0,
      lags: watched?.lags ?? 0,
      closed: watched?.closedCount ?? 0,
      lag: streamLag.toJSON(),
    },
    server: {
      cpuSeconds,
      cpuMsPerWrite: finite((cpuSeconds * 1_000) / recorder.writesAnswered),
      residentBytesBefore: before?.residentBytes ?? 0,
      residentBytesAfter: serverEnd?.residentBytes ?? 0,
      stages:
        before === undefined || serverEnd === undefined ? [] : stagesBetween(before, serverEnd),
      samples,
    },
    tester: {
      lateness: lateness.toJSON(),
      cpuSeconds: (spent.user + spent.system) / 1e6,
      busyMax: Math.max(0, ...seconds.map(({ testerBusy }) => testerBusy)),
      signedPerSecond,
      saturated:
        lateness.quantileMs(0.99) > LATENESS_P99_MS_MAX ||
        busySeconds > seconds.length * BUSY_SECONDS_SHARE_MAX,
    },
    truth,
    passed: ended === '' && isTrue(truth),
  }
}

/** Funds the traders if possible; returns a description of what they have. */
async function provide(parts: {
  readonly target: Target
  readonly traders: readonly Trader[]
  readonly say: (text: string) => void
}): Promise<string> {
  const { target, traders, say } = parts
  const { chain, markets } = target
  if (chain === undefined) return 'not given: the exchange has no local chain'
  if (!canFund(traders.length, markets.length)) {
    return `not given: ${traders.length} traders in ${markets.length} markets are too many`
  }
  say('funding traders')
  await fundTraders(chain, traders, markets, say)
  return 'given to every trader: dollars, shares of all markets, approvals'
}

/** Returns the reason of a failure, with advice if the process has run out of file handles. */
function explain(why: string, { sockets, connections }: LoadOptions): string {
  if (!/EMFILE|ENFILE/.test(why)) return why
  return (
    `no file handles left for ${sockets} sockets and ${connections} connections (${why}): ` +
    'raise the limit with ulimit -n'
  )
}

/**
 * Repeats the comparison until all figures agree, because the last messages may arrive late. Gives up after `quietMs`.
 * Returns the checks.
 */
async function compare(parts: {
  readonly target: Target
  readonly watch: Watch
  readonly traders: readonly Trader[]
  readonly recorder: Recorder
  readonly booksWereEmpty: boolean
  readonly quietMs: number
}): Promise<Check[]> {
  const { target, watch, traders, recorder, booksWereEmpty } = parts
  const addresses = traders.map(({ address }) => address)
  const endMs = performance.now() + parts.quietMs
  for (;;) {
    const told = await readTold(target, addresses)
    const checks = checkTruth({
      sent: recorder.sent(),
      watched: await watch.facts(),
      told,
      wrongAnswers: recorder.wrong,
      wrongAnswerCount: recorder.wrongCount,
      booksWereEmpty,
    })
    // A wrong answer of the exchange cannot become right. Other failed checks may still pass when late messages arrive.
    const isSettled = checks.some(({ name, ok }) => !ok && SETTLED.includes(name))
    if (isTrue(checks) || isSettled || performance.now() > endMs) return checks
    await pause(500)
  }
}

const SETTLED = ['answers fit their questions']

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

function finite(value: number): number {
  return Number.isFinite(value) ? value : 0
}
