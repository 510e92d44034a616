/**
 * `npm run bench -- reads`: measures every read of an exchange with 100,000 markets, 1,000,000 trades and 100,000
 * users. In the same rounds it measures an exchange with 50 markets and 10,000 trades, and a bare uWebSockets.js route
 * that sends the same bytes. Requests go over 16 connections, and each endpoint is requested for many markets and
 * users. The requested markets have open orders, so the exchange treats them as trading.
 *
 * Passes if the p99 with 1,000,000 trades is at most twice the p99 with 10,000, and the most frequent reads reach the
 * rates of `RATES`. The CPU time of an answer is that of the whole exchange, without other programs. `--uncached` turns
 * the fronts' short-lived caches off, so that every request reaches the database. `--rounds` sets the number of rounds.
 * `--requests` sets the maximum number of requests in a round. A slow endpoint gets only as many requests as fit into
 * `ROUND_MS`, but at least 200 unless `--requests` is lower.
 */

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { CATEGORIES } from '#domain/market.ts'
import { closeDatabase, sqlConnection } from '#store/engine/database.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { seedTrades } from '../test/store/reads/large-seed.ts'
import { type Exchange, openExchange } from '../test/support/exchange.ts'
import { fillSums } from '../test/support/fill-sums.ts'
import { randomFrom } from '../test/support/random.ts'
import { median, progress, quick, report } from './bench.ts'
import { openBusyMarkets } from './busy-markets.ts'
import { Histogram } from './histogram.ts'
import { type Driver, openDriver, type Request, writeRequest } from './http-driver.ts'
import { cpuSeconds } from './proc-file.ts'

const CONNECTIONS = 16
const ROUNDS = asked('--rounds') ?? (quick ? 3 : 5)
const REQUESTS = asked('--requests') ?? (quick ? 300 : 1_500)
const REQUESTS_MIN = Math.min(200, REQUESTS)
const ROUND_MS = 250
const P99_RATIO_MAX = 2
/** Minimum number of answers per second, on a quiet machine. */
const RATES: Readonly<Record<string, number>> = {
  ...{ trades: 5_000, activity: 5_000, 'markets/{id}': 5_000 },
  ...{ 'users/activity': 2_000, 'users/positions': 2_000, 'trades?before': 2_000 },
  ...{ markets: 6_000, 'markets?category': 2_000, settlements: 5_000, positions: 5_000 },
}
/**
 * Number of different markets and users that are requested. It is small, so that the requested lists have the same
 * length at both exchanges.
 */
const DIFFERENT = 50
const LARGE = quick ? 100_000 : 1_000_000
const MARKETS = quick ? 10_000 : 100_000

const id = (number: number) => `0x${number.toString(16).padStart(64, '0')}`
const user = (number: number) => `0x${number.toString(16).padStart(40, '0')}`

function asked(name: string): number | undefined {
  const at = process.argv.indexOf(name)
  return at < 0 ? undefined : Number(process.argv[at + 1])
}

type Names = {
  readonly market: string
  readonly user: string
  readonly trade: string
  readonly category: string
}

/** The requested paths, by the name of the endpoint. */
const ENDPOINTS: Readonly<Record<string, (names: Names) => string>> = {
  markets: () => '/api/v1/markets?limit=100',
  'markets?category': ({ category }) => `/api/v1/markets?limit=100&category=${category}`,
  'markets/{id}': ({ market }) => `/api/v1/markets/${market}`,
  stats: ({ market }) => `/api/v1/stats/${market}`,
  holders: ({ market }) => `/api/v1/holders/${market}`,
  activity: ({ market }) => `/api/v1/activity/${market}`,
  trades: ({ market }) => `/api/v1/trades/${market}`,
  'trades?before': ({ market, trade }) => `/api/v1/trades/${market}?before=${trade}`,
  candles: ({ market }) => `/api/v1/candles/${market}?interval=5m`,
  orderbook: ({ market }) => `/api/v1/orderbook/${market}`,
  'platform/stats': () => '/api/v1/platform/stats',
  'users/activity': ({ user: who }) => `/api/v1/users/${who}/activity?chain_id=31337`,
  'users/positions': ({ user: who }) => `/api/v1/users/${who}/positions?chain_id=31337`,
  positions: ({ market, user: who }) => `/api/v1/positions/${market}?user=${who}`,
  'pending-trades': () => '/api/v1/pending-trades',
  'failed-trades': () => '/api/v1/failed-trades',
  settlements: ({ market }) => `/api/v1/settlements/${market}`,
}

type Prepared = {
  readonly url: string
  /** Process of the exchange. */
  readonly pid: number
  readonly requests: (endpoint: string, count: number) => Request[]
}
type Side = Pick<Prepared, 'requests' | 'pid'> & { readonly driver: Driver }
type Measured = { readonly rate: number[]; readonly p99: number[]; body: string }

const bare = fork(new URL('./bare-server.ts', import.meta.url))
const exchanges: Exchange[] = []
try {
  const [port] = (await once(bare, 'message')) as [number]
  const few = await prepareSide({ trades: 10_000, markets: DIFFERENT, users: 1_000 })
  const size = { trades: LARGE, markets: MARKETS, traded: 1_000, users: LARGE / 10 }
  const many = await prepareSide(size)
  // Opens the connections only when both exchanges are ready, because a server closes idle connections.
  const small = await connectTo(few)
  const large = await connectTo(many)
  const plain = await openDriver(`http://127.0.0.1:${port}`, CONNECTIONS)
  const rows: Row[] = []
  const only = process.argv.includes('--only')
    ? process.argv[process.argv.indexOf('--only') + 1]
    : undefined
  const measured = Object.keys(ENDPOINTS).filter((name) => only?.split(',').includes(name) ?? true)
  for (const endpoint of measured) rows.push(await compare(endpoint, small, large, plain))
  for (const { endpoint, many, few, raw } of rows) {
    process.stdout.write(
      `${endpoint}: ${many.rate}/s, ${many.cpuUs} µs of CPU, p99 ${many.p99} ms, at 10,000 trades ${few.p99} ms; ` +
        `a bare route ${raw.rate}/s, p99 ${raw.p99} ms\n`,
    )
  }
  const leadOf = ({ few, many }: Row): number => few.p99 / many.p99
  const [worst] = rows.sort((one, other) => leadOf(one) - leadOf(other))
  if (worst === undefined) throw new Error(`there is no endpoint ${only}`)
  reportRates(rows)
  report({
    bench: `reads, the worst of ${rows.length} endpoints`,
    figure: worst.many.p99,
    unit: `ms p99 at ${LARGE.toLocaleString('en')} trades, ${worst.endpoint}`,
    peer: 'ms with 10,000 trades, of which it may be twice as much',
    peerFigure: worst.few.p99,
    ratio: Math.round(leadOf(worst) * 1_000) / 1_000,
    bar: 1 / P99_RATIO_MAX,
  })
  for (const { driver } of [small, large]) driver.close()
  plain.close()
} catch (error) {
  for (const exchange of exchanges) process.stderr.write(exchange.output())
  throw error
} finally {
  bare.disconnect()
  for (const exchange of exchanges) await exchange.dispose()
}

/** Reports the endpoint with the lowest rate relative to its minimum in `RATES`. */
function reportRates(rows: readonly Row[]): void {
  const wanted = rows.flatMap(({ endpoint, many }) => {
    const bar = RATES[endpoint]
    return bar === undefined ? [] : [{ endpoint, rate: many.rate, bar }]
  })
  const [slowest] = wanted.sort((one, other) => one.rate / one.bar - other.rate / other.bar)
  if (slowest === undefined) return
  report({
    bench: `reads, the slowest of ${wanted.length} that everybody asks for`,
    figure: slowest.rate,
    unit: `answers/s of ${slowest.endpoint}`,
    peer: 'answers/s that are wanted',
    peerFigure: slowest.bar,
    ratio: Math.round((slowest.rate / slowest.bar) * 1_000) / 1_000,
    bar: 1,
  })
}

/** Starts an exchange over a database of the given size, whose newest trades happened in the last minutes. */
async function prepareSide(size: {
  trades: number
  markets: number
  traded?: number
  users: number
}): Promise<Prepared> {
  progress(`${size.trades} trades are put in`)
  // Both exchanges are asked about the same number of markets and users (`DIFFERENT`), evenly spaced over all that they
  // have.
  const traded = size.traded ?? size.markets
  const markets = Array.from({ length: DIFFERENT }, (_, at) =>
    Math.floor((at * traded) / DIFFERENT),
  )
  const exchange = await openExchange({
    environment: {
      SIBYL_LOG_LEVEL: 'error',
      SIBYL_REQUEST_DEADLINE_MS: '60000',
      SIBYL_VERIFY_THREADS: '1',
      ...(process.argv.includes('--uncached') ? { SIBYL_READ_CACHE_MS: '0' } : {}),
    },
    async prepare(dataDir) {
      const database = await openDatabase(`sqlite:${join(dataDir, 'sibyl.db')}`)
      await migrate(database)
      // Turns off syncing: a benchmark that is killed starts over, so its data need not survive a crash. Enlarges the
      // cache, so that the indexes fit into it.
      for (const pragma of ['synchronous = off', 'cache_size = -1000000']) {
        await sqlConnection(database).execute(`pragma ${pragma}`)
      }
      await seedTrades(database, { ...size, endMs: Date.now() })
      await fillSums(database)
      const idle = Array.from({ length: size.markets - traded }, (_, at) => traded + at)
      await openBusyMarkets(database, dataDir, [...markets, ...idle])
      await closeDatabase(database)
    },
  })
  exchanges.push(exchange)
  const random = randomFrom(7)
  const perMarket = size.trades / traded
  const names = markets.map((market, at): Names => {
    const trade = `${id(market)}-${Math.floor((market + 0.5) * perMarket)}-0`
    const category = CATEGORIES[at % CATEGORIES.length]!
    const who = user(1 + Math.floor((at * size.users) / DIFFERENT))
    return { market: id(market), user: who, trade, category }
  })
  return {
    url: exchange.url,
    pid: exchange.pid,
    requests: (endpoint, count) =>
      Array.from({ length: count }, () => {
        const path = ENDPOINTS[endpoint]?.(random.pick(names)) ?? ''
        return writeRequest('GET', path, '')
      }),
  }
}

async function connectTo({ url, pid, requests }: Prepared): Promise<Side> {
  return { driver: await openDriver(url, CONNECTIONS), pid, requests }
}

async function compare(endpoint: string, small: Side, large: Side, plain: Driver): Promise<Row> {
  const measured = [newMeasured(), newMeasured(), newMeasured()] as const
  const bareRequests = (_: string, count: number) =>
    Array.from({ length: count }, () => writeRequest('GET', '/', ''))
  const sides = [small, large, { driver: plain, pid: 0, requests: bareRequests }]
  let [cpuSec, answers] = [0, 0]
  const counts = sides.map(() => REQUESTS_MIN)
  for (let round = -1; round < ROUNDS; round++) {
    progress(`${endpoint}: round ${round + 1} of ${ROUNDS}`)
    for (const [at, { driver, requests }] of sides.entries()) {
      const into = measured[at]!
      if (driver === plain) await serve(bare, measured[1].body)
      const before = cpuSeconds(large.pid)
      const perSecond = await run(driver, requests(endpoint, counts[at]!), into, round < 0)
      if (driver === large.driver && round >= 0) {
        cpuSec += cpuSeconds(large.pid) - before
        answers += counts[at]!
      }
      if (round < 0) {
        const inTime = Math.ceil((perSecond * ROUND_MS) / 1_000)
        counts[at] = Math.max(REQUESTS_MIN, Math.min(REQUESTS, inTime))
      }
    }
  }
  progress('')
  const [few, many, raw] = measured.map(({ rate, p99 }) => ({
    rate: Math.round(median(rate)),
    p99: Math.round(median(p99) * 100) / 100,
  })) as [Figures, Figures, Figures]
  return { endpoint, many: { ...many, cpuUs: Math.round((cpuSec * 1e6) / answers) }, few, raw }
}

type Figures = { readonly rate: number; readonly p99: number }
/**
 * Figures of one endpoint: at the exchange with many trades, at the exchange with few, and at a bare route that sends
 * the same bytes.
 */
type Row = {
  readonly endpoint: string
  readonly many: Figures & { readonly cpuUs: number }
  readonly few: Figures
  readonly raw: Figures
}

function newMeasured(): Measured {
  return { rate: [], p99: [], body: '' }
}

async function run(
  driver: Driver,
  requests: readonly Request[],
  into: Measured,
  warmup: boolean,
): Promise<number> {
  const latencies = new Histogram()
  const tookMs = await driver.closedLoop(requests, ({ status, body, latencyMs }) => {
    if (status !== 200) throw new Error(`${status}: ${body}`)
    latencies.recordMs(latencyMs)
    into.body = body
  })
  const perSecond = (requests.length * 1_000) / tookMs
  if (!warmup) {
    into.rate.push(perSecond)
    into.p99.push(latencies.quantileMs(0.99))
  }
  return perSecond
}

async function serve(server: ChildProcess, body: string): Promise<void> {
  server.send(body)
  await once(server, 'message')
}
