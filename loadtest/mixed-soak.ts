/**
 * `npm run soak -- mixed`: all kinds of load at once, for a long time. Funded traders place orders, cancel and trade on
 * a real chain. Readers request every kind of page. Stream clients follow books, and reconnect after their connections
 * are cut. Orders are sent at a fixed rate, so that a slow minute shows as latency.
 *
 *   --minutes 30
 *   --rate 30             orders per second, over all traders
 *   --funds off|reserve   off is the default, as in the exchange's own settings
 *
 * The last line is the result. The run fails (exit code 1) if memory grows, if a trade failed or is left pending, or if
 * a request got an unexpected answer. It also fails if a client's book differs from the exchange's at the end.
 */

import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { SibylError } from '#client/sibyl-error.ts'
import { DEMO_TRADERS, devnetAccount } from '#devnet/accounts.ts'
import { randomFrom } from '../test/support/random.ts'
import { openSettled } from '../test/support/settled.ts'
import { Histogram } from './histogram.ts'
import { bytesIn, heapsOf, openResident, slopeOf } from './resident.ts'

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '30' },
    rate: { type: 'string', default: '30' },
    funds: { type: 'string', default: 'off' },
    seed: { type: 'string', default: '1' },
  },
})
const MINUTES = Number(values.minutes)
const RATE = Number(values.rate)
const random = randomFrom(Number(values.seed))
/** Reads per second, of all kinds together. */
const READS_RATE = 20
const STREAMS = 10
const CUT_EVERY_MS = 3_000
/** Maximum number of open orders of a trader. Beyond this number, each new order cancels the oldest one. */
const OPEN_MAX = 40
const TTL_SECONDS = 1_800
/** Share of the run, from its start, in which growth of the memory is ignored, because caches and pools fill. */
const WARM_SHARE = 0.3
/** Maximum growth of the resident memory that counts as flat, in MiB per minute. */
const SLOPE_MAX = 2
const MIB = 1_048_576
/**
 * Maximum size of SQLite's caches for the database and for each partition of the log. While a file is smaller than its
 * cache, memory grows with the file, and this is no leak. (`src/store/engine/database.ts`,
 * `src/log/partition/partition-file.ts`)
 */
const DATABASE_CACHE_MIB = 64
const PARTITION_CACHE_MIB = 16

const s = await openSettled({
  environment: {
    SIBYL_RISK_FUNDS: values.funds,
    SIBYL_LIMITS: 'false',
    SIBYL_SETTLEMENT_BATCH_WAIT_MS: '200',
    SIBYL_SETTLEMENT_POLL_MS: '500',
    SIBYL_INDEXER_POLL_MS: '1000',
    SIBYL_LOG_LEVEL: 'error',
    // A request that takes longer fails. The default in tests is too long to notice slow requests.
    SIBYL_REQUEST_DEADLINE_MS: '5000',
  },
})
const residentMiB = await openResident(s.exchange.dataDir)
const { url } = s.exchange
const { marketId } = s
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
const beganMs = performance.now()
const minutesNow = (): number => (performance.now() - beganMs) / 60_000
const isOver = (): boolean => minutesNow() >= MINUTES

let minute = { placing: new Histogram(), reading: new Histogram(), orders: 0, cancels: 0 }
const refused = new Map<string, number>()
/** Codes that an honest trader may receive during the test; every other one is a failure. */
const EXPECTED = new Set(['ORDER_CLOSED', 'INSUFFICIENT_FUNDS'])

function count(error: unknown): void {
  const code = error instanceof SibylError ? error.code : String(error)
  refused.set(code, (refused.get(code) ?? 0) + 1)
}

/** Runs `call` at a fixed rate, whether or not earlier calls have ended. Resolves when all calls have ended. */
async function atRate(perSecond: number, call: (index: number) => Promise<void>): Promise<void> {
  const open = new Set<Promise<void>>()
  const startMs = performance.now()
  for (let index = 0; !isOver(); index++) {
    const waitMs = startMs + (index * 1_000) / perSecond - performance.now()
    if (waitMs > 0) await pause(waitMs)
    const called: Promise<void> = call(index)
      .catch(count)
      .finally(() => open.delete(called))
    open.add(called)
  }
  await Promise.all(open)
}

const traders = DEMO_TRADERS.map((account) => ({
  ...{ client: s.clientOf(account), address: devnetAccount(account).address },
  open: [] as { orderHash: string; side: 'buy' | 'sell' }[],
}))

async function trade(index: number): Promise<void> {
  const { client, open } = traders[index % traders.length]!
  const begunMs = performance.now()
  // Small orders around the middle, so that half of them trade and no trader runs out of funds.
  const side = random.pick(['buy', 'sell'] as const)
  const { orderHash } = await client.orders.place({
    ...{ marketId, side, ttlSeconds: TTL_SECONDS },
    outcome: random.pick(['YES', 'NO'] as const),
    price: random.int(400, 600) * 1_000,
    size: random.int(10, 100) * 1_000,
  })
  minute.placing.recordMs(performance.now() - begunMs)
  minute.orders++
  open.push({ orderHash, side })
  if (open.length <= OPEN_MAX) return
  minute.cancels++
  await client.orders.cancel({ ...open.shift()!, marketId })
}

const PAGES = [
  () => '/api/v1/markets',
  () => `/api/v1/markets/${marketId}`,
  () => `/api/v1/orderbook/${marketId}`,
  () => `/api/v1/trades/${marketId}`,
  () => `/api/v1/candles/${marketId}?interval=1m`,
  (address: string) => `/api/v1/orders?trader=${address}`,
  (address: string) => `/api/v1/users/${address}/positions?chain_id=${s.chain.settings.chainId}`,
  (address: string) => `/api/v1/users/${address}/activity?chain_id=${s.chain.settings.chainId}`,
] as const

async function read(index: number): Promise<void> {
  const begunMs = performance.now()
  const path = PAGES[index % PAGES.length]!(traders[index % traders.length]!.address)
  const response = await fetch(`${url}${path}`)
  await response.arrayBuffer()
  if (response.status !== 200) count(`${response.status} of ${path.split('/')[3]}`)
  minute.reading.recordMs(performance.now() - begunMs)
}

const sockets = new Set<WebSocket>()
class Counted extends WebSocket {
  constructor(address: string | URL) {
    super(address)
    sockets.add(this)
    this.addEventListener('close', () => sockets.delete(this))
  }
}
let checksums = 0
const followers = Array.from({ length: STREAMS }, (_, index) => {
  const stream = traders[index]!.client.stream({ WebSocket: Counted })
  stream.on('checksum', () => checksums++)
  const outcome = index % 2 === 0 ? 'YES' : 'NO'
  const { book } = stream.book({ marketId, outcome })
  stream.trades(marketId, () => undefined)
  return { stream, book, outcome } as const
})
const cutting = setInterval(() => {
  if (sockets.size > 0) random.pick([...sockets]).close()
}, CUT_EVERY_MS)

/**
 * Returns the number of clients whose local book differs from the exchange's book after the last messages have arrived.
 */
async function differences(): Promise<number> {
  let wrong = followers.length
  for (let attempt = 0; attempt < 100 && wrong > 0; attempt++) {
    await pause(100)
    wrong = 0
    for (const { book, outcome } of followers) {
      const { bids, asks } = await traders[0]!.client.orderbook(marketId, outcome)
      const text = (levels: typeof bids) =>
        levels.map(({ price, size }) => `${price}:${size}`).join()
      if (text(book.bids()) !== text(bids) || text(book.asks()) !== text(asks)) wrong++
    }
  }
  return wrong
}

type Sample = { minute: number; mib: number; p50: number; p99: number; readP99: number }
const samples: Sample[] = []
const sizes: Map<string, number>[] = []
const heaps: Map<string, number>[] = []
let orders = 0
let cancels = 0

async function watch(): Promise<void> {
  while (!isOver()) {
    await pause(Math.min(60_000, Math.max(0, (MINUTES - minutesNow()) * 60_000)))
    const last = minute
    minute = { placing: new Histogram(), reading: new Histogram(), orders: 0, cancels: 0 }
    orders += last.orders
    cancels += last.cancels
    const quantile = (of: Histogram, q: number) => Number(of.quantileMs(q).toFixed(1))
    samples.push({
      ...{ minute: Number(minutesNow().toFixed(1)), mib: Math.round(await residentMiB()) },
      ...{ p50: quantile(last.placing, 0.5), p99: quantile(last.placing, 0.99) },
      readP99: quantile(last.reading, 0.99),
    })
    sizes.push(await bytesIn(s.exchange.dataDir))
    heaps.push(await heapsOf(url).catch(() => new Map()))
    const files = [...sizes.at(-1)!].map(([name, bytes]) => `${name} ${(bytes / MIB).toFixed(1)}`)
    process.stdout.write(
      `${JSON.stringify({ orders, ...samples.at(-1) })} MiB: ${files.join(', ')}\n`,
    )
  }
}

try {
  await Promise.all([atRate(RATE, trade), atRate(READS_RATE, read), watch()])
  clearInterval(cutting)
  const pending = async () => (await s.get<{ count: number }>('/api/v1/pending-trades')).count
  for (let waits = 0; waits < 1_200 && (await pending()) > 0; waits++) await pause(100)
  const failed = (await s.get<{ count: number }>('/api/v1/failed-trades')).count
  const different = await differences()
  const times = [...(await s.settledTimes()).values()]
  const warm = samples.filter((sample) => sample.minute >= WARM_SHARE * MINUTES)
  const partitions = (await readdir(join(s.exchange.dataDir, 'log'))).filter((name) =>
    /^partition-\d+\.db$/.test(name),
  ).length
  const cached = (index: number): number => {
    const mibOf = (name: string) => (sizes[index]!.get(name) ?? 0) / MIB
    const log = Math.min(mibOf('log'), PARTITION_CACHE_MIB * partitions)
    return Math.min(mibOf('sibyl.db'), DATABASE_CACHE_MIB) + log
  }
  const slope = slopeOf(
    warm.map((sample) => [sample.minute, sample.mib - cached(samples.indexOf(sample))] as const),
  )
  const third = Math.ceil(samples.length / 3)
  const worst = (of: readonly Sample[]) => Math.max(...of.map(({ p99 }) => p99))
  const growth = (name: string) => (sizes.at(-1)!.get(name) ?? 0) - (sizes[0]!.get(name) ?? 0)
  const unexpected = [...refused].filter(([code]) => !EXPECTED.has(code))
  const result = {
    ...{ soak: 'mixed', minutes: MINUTES, funds: values.funds, orders, cancels },
    refused: Object.fromEntries(refused),
    trades: { settled: times.length, twice: times.filter((n) => n > 1).length, failed },
    ...{ pending: await pending(), checksumErrors: checksums, booksThatDiffer: different },
    residentMiB: { first: warm[0]?.mib, last: warm.at(-1)?.mib },
    heapMiB: Object.fromEntries(
      [...heaps.at(-1)!].map(([thread, mib]) => [thread, [heaps[0]!.get(thread), mib]]),
    ),
    ...{ slopeMiBPerMinute: Number(slope.toFixed(2)), slopeMax: SLOPE_MAX },
    p99Ms: { firstThird: worst(samples.slice(0, third)), lastThird: worst(samples.slice(-third)) },
    bytesPerOrder: Object.fromEntries(
      [...sizes.at(-1)!.keys()].map((name) => [name, Math.round(growth(name) / orders)]),
    ),
  }
  process.stdout.write(`${JSON.stringify(result)}\n`)
  const isSound =
    unexpected.length === 0 &&
    failed === 0 &&
    result.trades.twice === 0 &&
    result.pending === 0 &&
    checksums === 0 &&
    different === 0 &&
    !(slope > SLOPE_MAX)
  if (!isSound) process.exitCode = 1
} finally {
  clearInterval(cutting)
  for (const { stream } of followers) stream.close()
  await s.dispose()
}
