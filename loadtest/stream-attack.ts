/**
 * `npm run soak -- stream-attack [seconds [attack]]`: an honest client places orders and asks for `/healthz` while
 * one address, then ten, attack the stream (`hostile-stream.ts`). Prints the quantiles of each phase next to those of
 * the quiet phase, and the memory. Exits with 1 when the exchange ends or the honest client gets no answer.
 */

import { readdirSync, readFileSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import type { Address, MarketId } from '#domain/ids.ts'
import { openExchange } from '../test/support/exchange.ts'
import { Histogram } from './histogram.ts'
import { type AttackFigures, deepenBook } from './hostile-stream.ts'
import type { HostileData } from './hostile-thread.ts'
import { openDriver, writeRequest } from './http-driver.ts'
import { openResident } from './resident.ts'
import { makeTrader, signOrders } from './signed-orders.ts'

const SECONDS = Number(process.argv[2] ?? 30)
const ONLY = process.argv[3]
const ORDERS_PER_SECOND = 40
const HEALTH_PER_SECOND = 20
const MARKETS = 250
const TICKS_PER_SECOND = 100

const exchange = await openExchange({
  environment: {
    SIBYL_LIMITS: 'true',
    SIBYL_DEMO_MARKETS_MORE: String(MARKETS - 3),
    SIBYL_REQUEST_DEADLINE_MS: '10000',
    SIBYL_LOG_LEVEL: 'warn',
    SIBYL_STOP_TIMEOUT_MS: '10000',
  },
})
const { url } = exchange

async function read<T>(path: string): Promise<T> {
  return (await fetch(url + path)).json() as Promise<T>
}

type Config = { chains: { chainId: number; contracts: { settlement: string } }[] }
const [chain] = (await read<Config>('/api/v1/config')).chains
if (chain === undefined) throw new Error('the exchange has no chain')
const domain = {
  chainId: chain.chainId,
  verifyingContract: chain.contracts.settlement.toLowerCase() as Address,
}
const { markets } = await read<{ markets: { id: MarketId }[] }>('/api/v1/markets?limit=1000')
const ids = markets.map(({ id }) => id)
const trader = makeTrader()
const residentMiB = await openResident(exchange.dataDir)
let failed = 0

/** The CPU time of each thread of the exchange so far, by its number. */
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

/** The thread that used the most since then, and all of them together. */
function cpuSince(before: ReadonlyMap<string, number>): { busiest: number; all: number } {
  const used = [...cpuSeconds()].map(([task, now]) => now - (before.get(task) ?? 0))
  const rounded = (value: number) => Number(value.toFixed(1))
  return {
    busiest: rounded(Math.max(...used)),
    all: rounded(used.reduce((sum, each) => sum + each, 0)),
  }
}

async function phase(name: string, attack: Promise<AttackFigures[]>): Promise<void> {
  const [orders, health] = [new Histogram(), new Histogram()]
  const before = cpuSeconds()
  const count = ORDERS_PER_SECOND * SECONDS
  const signed = signOrders({ count, traders: [trader], markets: ids, domain })
  const drivers = await Promise.all([openDriver(url, 8), openDriver(url, 8)])
  const record = (into: Histogram) => (answer: { status: number; latencyMs: number }) => {
    if (answer.status !== 200) failed++
    into.recordMs(answer.latencyMs)
  }
  const requests = signed.map((order) =>
    writeRequest('POST', '/api/v1/orders', JSON.stringify(order)),
  )
  const healthz = writeRequest('GET', '/healthz', '')
  await Promise.all([
    drivers[0].openLoop(requests, ORDERS_PER_SECOND, record(orders)),
    drivers[1].openLoop(
      Array.from({ length: HEALTH_PER_SECOND * SECONDS }, () => healthz),
      HEALTH_PER_SECOND,
      record(health),
    ),
  ])
  for (const driver of drivers) driver.close()
  const ms = (histogram: Histogram, q: number) => Number(histogram.quantileMs(q).toFixed(1))
  const line = {
    phase: name,
    orders: { p50: ms(orders, 0.5), p99: ms(orders, 0.99) },
    healthz: { p50: ms(health, 0.5), p99: ms(health, 0.99) },
    failed,
    cpuSeconds: cpuSince(before),
    residentMiB: Math.round(await residentMiB()),
    attacks: sumOf(await attack),
  }
  process.stdout.write(`${JSON.stringify(line)}\n`)
}

function sumOf(figures: readonly AttackFigures[]): AttackFigures {
  const sum = (key: keyof AttackFigures) => figures.reduce((total, each) => total + each[key], 0)
  return {
    sockets: sum('sockets'),
    framesSent: sum('framesSent'),
    mebibytesRead: sum('mebibytesRead'),
  }
}

function attackFrom(count: number, attack: HostileData['attack']): Promise<AttackFigures[]> {
  const first = attack === 'tickerTopics' ? 1 : 101
  const addresses = Array.from({ length: count }, (_, index) => `127.0.9.${first + index}`)
  const workerData: HostileData = { attack, url, addresses, seconds: SECONDS }
  const worker = new Worker(new URL('./hostile-thread.ts', import.meta.url), { workerData })
  return new Promise((resolve, reject) => {
    worker.once('message', resolve)
    worker.once('error', reject)
  })
}

try {
  await deepenBook(url)
  await phase('quiet', Promise.resolve([]))
  for (const attack of ['tickerTopics', 'conflatedSnapshots'] as const) {
    if (ONLY !== undefined && attack !== ONLY) continue
    for (const count of [1, 10]) await phase(`${attack} from ${count}`, attackFrom(count, attack))
  }
} catch (error) {
  failed++
  process.stdout.write(`${String(error)}\n`)
} finally {
  const lines = exchange.output().split('\n')
  process.stdout.write(lines.filter((line) => /hang|busy|ended|died/.test(line)).join('\n'))
  await exchange.dispose()
  process.exit(failed > 0 ? 1 : 0)
}
