/**
 * `npm run soak -- hostile`: an honest client places orders and requests `/healthz`, first without attackers (the quiet
 * phase). Then attackers load the front and the stream in every known way at once: first from one address, then from
 * ten. Each attack stays within the default limits. The attacks are media types and bodies that are expensive to
 * reject, lists of markets, large files, ticker topics, and snapshots of a deep book.
 *
 *   --minutes 10     how long each of the two attacks lasts
 *   --attack names   only the named attacks, separated by commas
 *
 * Each phase prints the p50 and p99 of both requests, their ratio to the quiet phase, and the memory. It also prints
 * the CPU seconds of the attackers, of the busiest thread of the exchange (its front), and of all its threads. The run
 * fails (exit code 1) if a p50 or p99 is more than 1.5 times that of the quiet phase. It also fails if an honest
 * request fails, or if memory grows in the second half of an attack.
 *
 * The attackers share the cores with the exchange, so on few cores they cause part of the ratio. Therefore a control
 * phase of the same length follows each attack. In it, another process uses as much CPU time as the attackers did, at
 * the same times, and sends nothing. `ratiosToControl` compares the attack with this control, and shows what the
 * exchange itself adds. Each phase also prints how late the event loops of the front and of this program were. Delays
 * of this program are not delays of the exchange.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { constants, setPriority } from 'node:os'
import { fileURLToPath } from 'node:url'
import { openExchange } from '../test/support/exchange.ts'
import type { BurnerWork, CpuMark } from './cpu-burner.ts'
import { Histogram } from './histogram.ts'
import type { HostileResult, HostileWork } from './hostile-attackers.ts'
import { deepenBook, fillCaches, readDomain, readMarkets } from './hostile-setup.ts'
import { type Answer, type Driver, openDriver, type Request, writeRequest } from './http-driver.ts'
import { openResident } from './resident.ts'
import { makeTrader, signOrders } from './signed-orders.ts'

function option(name: string): string | undefined {
  const at = process.argv.indexOf(`--${name}`)
  return at > 0 ? process.argv[at + 1] : undefined
}

const MINUTES = Number(option('minutes') ?? '10')
const ONLY = option('attack')?.split(',')
const ORDERS_PER_SECOND = 40
const HEALTH_PER_SECOND = 20
const MARKETS = 1_000
const RATIO_MAX = 1.5
/** Minimum divisor in ms of a ratio of latencies. Smaller latencies depend mostly on the machine. */
const NOTICED_MS = 5
const GROWTH_MAX = 1.1
const SAMPLE_MS = 1_000
const SLOWEST = 8
const PACE_MS = 2
const OWN_SAMPLE_MS = 10
/** Maximum duration of the quiet phase. */
const CALM_SECONDS_MAX = 60
const TICKS_PER_SECOND = 100

const exchange = await openExchange({
  environment: {
    SIBYL_LIMITS: 'true',
    SIBYL_DEMO_MARKETS_MORE: String(MARKETS - 3),
    SIBYL_LOG_LEVEL: 'error',
    SIBYL_STOP_TIMEOUT_MS: '10000',
  },
})
const { url } = exchange

type Figures = { p50: number; p99: number }
type Phase = {
  orders: Figures
  healthz: Figures
  failed: number
  /** The seconds with the slowest answers, counted from the start of the phase, and how late this program was then. */
  slowest: { second: number; ms: number; ownLateMs: number }[]
  /**
   * Number of samples of the front's event loop, by how late the loop was. The front takes ten samples per
   * second.
   */
  frontLate: Readonly<Record<string, number>>
  residentMiB: number[]
  cpuSeconds: { busiest: number; all: number }
}

const domain = await readDomain(url)
const ids = await readMarkets(url)
const traders = [makeTrader()]
const residentMiB = await openResident(exchange.dataDir)

/** Sends at a steady rate without waiting for answers; resolves when every request has been answered or timed out. */
function steadily(
  driver: Driver,
  requests: readonly Request[],
  perSecond: number,
  onAnswer: (answer: Answer) => void,
): Promise<void> {
  const startedMs = performance.now()
  return new Promise((resolve) => {
    let [next, left] = [0, requests.length]
    const done = (answer: Answer): void => {
      onAnswer(answer)
      left--
      if (left === 0) resolve()
    }
    const pace = (): void => {
      for (; next < requests.length; next++) {
        const dueMs = startedMs + (next * 1_000) / perSecond
        if (performance.now() < dueMs) break
        driver.send(requests[next]!, dueMs, done)
      }
      if (next < requests.length) setTimeout(pace, PACE_MS)
    }
    pace()
  })
}

/** Returns the CPU time of each thread of the exchange so far, by the thread's number. */
function cpuSeconds(): Map<string, number> {
  const seconds = new Map<string, number>()
  for (const task of readdirSync(`/proc/${exchange.pid}/task`)) {
    const stat = readFileSync(`/proc/${exchange.pid}/task/${task}/stat`, 'latin1')
    const [, , , , , , , , , , , user = '0', system = '0'] = stat
      .slice(stat.indexOf(')') + 2)
      .split(' ')
    seconds.set(task, (Number(user) + Number(system)) / TICKS_PER_SECOND)
  }
  return seconds
}

/** Returns the CPU time used since `before` was read: of the thread that used the most, and of all threads together. */
function cpuSince(before: ReadonlyMap<string, number>): Phase['cpuSeconds'] {
  const used = [...cpuSeconds()].map(([task, now]) => now - (before.get(task) ?? 0))
  const rounded = (value: number) => Number(value.toFixed(1))
  return {
    busiest: rounded(Math.max(...used)),
    all: rounded(used.reduce((sum, each) => sum + each, 0)),
  }
}

const FRONT_LAG = /^sibyl_thread_loop_lag_seconds_bucket\{.*thread="front-0".*\} (\d+)$/
const LATE_SECONDS = ['0.05', '0.1', '0.25', '0.5', '1']

/** Returns the number of samples so far in which the front's event loop was later than each limit of `LATE_SECONDS`. */
async function frontLateness(): Promise<number[]> {
  const metrics = await (await fetch(`${url}/metrics`)).text()
  const rows = metrics.split('\n').filter((line) => FRONT_LAG.test(line))
  const atMost = (le: string): number =>
    Number(FRONT_LAG.exec(rows.find((row) => row.includes(`le="${le}"`)) ?? '')?.[1] ?? 0)
  return LATE_SECONDS.map((le) => atMost('+Inf') - atMost(le))
}

/** Measures, for each second, how late this program's event loop is. The exchange does not cause these delays. */
function watchOwnLoop() {
  const lateMs: number[] = []
  const startedMs = performance.now()
  let dueMs = startedMs + OWN_SAMPLE_MS
  const timer = setInterval(() => {
    const nowMs = performance.now()
    const second = Math.floor((nowMs - startedMs) / 1_000)
    lateMs[second] = Math.max(lateMs[second] ?? 0, Math.round(nowMs - dueMs))
    dueMs = nowMs + OWN_SAMPLE_MS
  }, OWN_SAMPLE_MS)
  return { lateMs, end: () => clearInterval(timer) }
}

/** Measures the honest client for the given number of seconds. */
async function measure(seconds: number): Promise<Phase> {
  const [orders, health] = [new Histogram(), new Histogram()]
  let failed = 0
  const worstMs: number[] = []
  let startedMs = performance.now()
  const record = (into: Histogram) => (answer: Answer) => {
    if (answer.status !== 200) failed++
    into.recordMs(answer.latencyMs)
    const second = Math.floor((performance.now() - startedMs) / 1_000)
    worstMs[second] = Math.max(worstMs[second] ?? 0, Math.round(answer.latencyMs))
  }
  const signed = signOrders({ count: ORDERS_PER_SECOND * seconds, traders, markets: ids, domain })
  const placing = signed.map((order) =>
    writeRequest('POST', '/api/v1/orders', JSON.stringify(order)),
  )
  const healthz = writeRequest('GET', '/healthz', '')
  const asking = Array.from({ length: HEALTH_PER_SECOND * seconds }, () => healthz)
  const memory: number[] = []
  const sampling = setInterval(() => {
    void residentMiB().then((mebibytes) => memory.push(Math.round(mebibytes)))
  }, SAMPLE_MS)
  const before = cpuSeconds()
  const lateBefore = await frontLateness()
  const drivers = [await openDriver(url, 8), await openDriver(url, 8)] as const
  const own = watchOwnLoop()
  startedMs = performance.now()
  await Promise.all([
    steadily(drivers[0], placing, ORDERS_PER_SECOND, record(orders)),
    steadily(drivers[1], asking, HEALTH_PER_SECOND, record(health)),
  ])
  own.end()
  for (const driver of drivers) driver.close()
  clearInterval(sampling)
  const lateAfter = await frontLateness()
  const frontLate = Object.fromEntries(
    LATE_SECONDS.map((le, at) => [`over ${le} s`, lateAfter[at]! - lateBefore[at]!]),
  )
  const figures = (histogram: Histogram): Figures => ({
    p50: Number(histogram.quantileMs(0.5).toFixed(1)),
    p99: Number(histogram.quantileMs(0.99).toFixed(1)),
  })
  const slowest = worstMs
    .map((ms, second) => ({ second, ms, ownLateMs: own.lateMs[second] ?? 0 }))
    .sort((a, b) => b.ms - a.ms)
    .slice(0, SLOWEST)
  return {
    ...{ orders: figures(orders), healthz: figures(health), failed, slowest, residentMiB: memory },
    frontLate,
    cpuSeconds: cpuSince(before),
  }
}

/**
 * Starts a program that the kernel runs only on a core that has nothing else to do. Real attackers use the cores of other
 * machines. A low priority is not enough: a thread of the exchange that wakes would often wait until the attacker's time
 * slice ends.
 */
function startIdle(file: string): ChildProcess {
  const path = fileURLToPath(new URL(file, import.meta.url))
  return spawn('chrt', ['--idle', '0', process.execPath, path], {
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
  })
}

/**
 * Gives this program the highest priority, if the user may do so. Then the measured times contain fewer waits of this
 * program for a core. The exchange must already run, because processes inherit the priority.
 */
function preferThisProgram(): void {
  try {
    setPriority(constants.priority.PRIORITY_HIGHEST)
  } catch {
    process.stdout.write('this user may not raise the priority, so the times contain own waits\n')
  }
}

/** Starts the attackers when their program is loaded; `ended` resolves with their counts. */
async function startAttackers(
  addresses: readonly string[],
  seconds: number,
): Promise<{ ended: Promise<HostileResult> }> {
  const child = startIdle('hostile-attackers.ts')
  await once(child, 'message')
  const work: HostileWork = { url, addresses, seconds, only: ONLY }
  child.send(work)
  const ended = Promise.race([
    once(child, 'message').then(([result]) => result as HostileResult),
    once(child, 'exit').then(() =>
      Promise.reject(new Error('the process of the attackers ended before it sent its result')),
    ),
  ])
  return { ended }
}

/** Measures the honest client while another process uses as much CPU time as the attackers did. */
async function control(marks: readonly CpuMark[], seconds: number): Promise<Phase> {
  const child = startIdle('cpu-burner.ts')
  const work: BurnerWork = { marks }
  child.send(work)
  const ended = once(child, 'exit')
  const phase = await measure(seconds)
  await ended
  return phase
}

const ratio = (now: number, quiet: number): number =>
  Number((now / Math.max(quiet, NOTICED_MS)).toFixed(2))

function ratios(now: Phase, quiet: Phase): number[] {
  return (['orders', 'healthz'] as const).flatMap((what) =>
    (['p50', 'p99'] as const).map((share) => ratio(now[what][share], quiet[what][share])),
  )
}

const top = (samples: readonly number[]): number => Math.max(0, ...samples)

/** Returns the ratio of the highest memory in the second half of the phase to the highest memory in the first half. */
function growth({ residentMiB: samples }: Phase): number {
  const middle = Math.floor(samples.length / 2)
  return ratioOf(top(samples.slice(middle)), top(samples.slice(0, middle)))
}

const ratioOf = (now: number, before: number): number => Number((now / before).toFixed(2))

try {
  preferThisProgram()
  const seconds = Math.max(1, Math.round(MINUTES * 60))
  await deepenBook(url)
  await fillCaches(url)
  await measure(5)
  const calmSeconds = Math.min(CALM_SECONDS_MAX, seconds)
  const quiet = await measure(calmSeconds)
  process.stdout.write(
    `${JSON.stringify({ phase: 'quiet', ...quiet, residentMiB: top(quiet.residentMiB) })}\n`,
  )
  for (const count of [1, 10]) {
    const addresses = Array.from({ length: count }, (_, at) => `127.0.9.${10 * count + at}`)
    const attacking = await startAttackers(addresses, seconds)
    const phase = await measure(seconds)
    const attackers = await attacking.ended
    const alike = await control(attackers.cpuMarks, seconds)
    const attackSeconds = (attackers.cpuMarks.at(-1)?.usedMs ?? 0) / 1_000
    const told = { ratios: ratios(phase, quiet), growth: growth(phase) }
    const isBad = told.ratios.some((each) => each > RATIO_MAX) || phase.failed > 0
    if (isBad || told.growth > GROWTH_MAX) process.exitCode = 1
    const { orders, healthz, failed, slowest, frontLate, residentMiB: memory } = phase
    const line = {
      ...{ phase: `${count} hostile`, orders, healthz, ...told, failed, slowest, frontLate },
      residentMiB: top(memory),
      control: {
        ...{ orders: alike.orders, healthz: alike.healthz, slowest: alike.slowest },
        frontLate: alike.frontLate,
      },
      ratiosToControl: ratios(phase, alike),
      cpuSeconds: { attackers: Math.round(attackSeconds), ...phase.cpuSeconds },
      attacks: attackers.attacks,
    }
    process.stdout.write(`${JSON.stringify(line)}\n`)
  }
  process.stdout.write(
    `${process.exitCode === 1 ? 'failed' : 'passed'}: at most ${RATIO_MAX} times the quiet figures\n`,
  )
} finally {
  await exchange.dispose()
}
