/**
 * `npm run bench -- dear-reads`: how long placing an order takes while another address sends expensive reads:
 * `/metrics` 300 times a second, and pages deep in a market's history 450 times a second. Limits are on as in
 * production. Prints the p50 and p99 of placing, and the answers to the reads.
 */

import { join } from 'node:path'
import { type MarketId, toAddress } from '#domain/ids.ts'
import { closeDatabase } from '#store/engine/database.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { seedTrades } from '../test/store/reads/large-seed.ts'
import { openExchange } from '../test/support/exchange.ts'
import { fillSums } from '../test/support/fill-sums.ts'
import { progress, quick } from './bench.ts'
import { Histogram } from './histogram.ts'
import { openDriver, type Request, writeRequest } from './http-driver.ts'
import { makeTrader, signOrders } from './signed-orders.ts'

const TRADES = quick ? 20_000 : 200_000
const SEEDED_MARKETS = 50
const SECONDS = quick ? 5 : 15
const ORDERS_PER_SECOND = 20
const TRADER = { 'x-forwarded-for': '192.0.2.1' }
const READER = { 'x-forwarded-for': '192.0.2.2' }

const marketId = (number: number) => `0x${number.toString(16).padStart(64, '0')}`

const exchange = await openExchange({
  environment: {
    SIBYL_LOG_LEVEL: 'error',
    SIBYL_LIMITS: 'true',
    SIBYL_METRICS_CACHE_MS: '1000',
    SIBYL_TRUSTED_PROXIES: '127.0.0.1',
    SIBYL_ALLOW_OPEN_WRITES: 'true',
  },
  async prepare(dataDir) {
    progress(`${TRADES} trades are put in`)
    const database = await openDatabase(`sqlite:${join(dataDir, 'sibyl.db')}`)
    await migrate(database)
    const size = { trades: TRADES, markets: SEEDED_MARKETS, users: 1_000 }
    await seedTrades(database, { ...size, endMs: Date.now() })
    await fillSums(database)
    await closeDatabase(database)
  },
})

type Config = { chains: { chainId: number; contracts: { settlement: string } }[] }
type Markets = { markets: { id: MarketId; question: string }[] }

async function read<T>(path: string): Promise<T> {
  return (await fetch(exchange.url + path)).json() as Promise<T>
}

/** Places orders at a steady rate while the request `beside` is sent `perSecond` times a second. */
async function measure(what: string, beside: Request | undefined, perSecond: number) {
  progress(what)
  const placing = await openDriver(exchange.url, 16)
  const reading = await openDriver(exchange.url, 64)
  const latencies = new Histogram()
  const reads: Record<string, number> = {}
  let failed = 0
  const requests = signOrders({ count: SECONDS * ORDERS_PER_SECOND, traders, markets, domain }).map(
    (order) => writeRequest('POST', '/api/v1/orders', JSON.stringify(order), TRADER),
  )
  const count = beside === undefined ? 0 : SECONDS * perSecond
  await Promise.all([
    placing.openLoop(requests, ORDERS_PER_SECOND, ({ status, latencyMs }) => {
      if (status === 200) latencies.recordMs(latencyMs)
      else failed++
    }),
    ...(beside === undefined
      ? []
      : [
          reading.openLoop(
            Array.from({ length: count }, () => beside),
            perSecond,
            ({ status }) => {
              reads[status] = (reads[status] ?? 0) + 1
            },
          ),
        ]),
  ])
  placing.close()
  reading.close()
  const ms = (share: number) => Math.round(latencies.quantileMs(share) * 10) / 10
  const told = { beside: what, p50Ms: ms(0.5), p99Ms: ms(0.99), failed, reads }
  process.stdout.write(`${JSON.stringify(told)}\n`)
}

const [chain] = (await read<Config>('/api/v1/config')).chains
if (chain === undefined) throw new Error('the exchange has no chain configured')
const domain = { chainId: chain.chainId, verifyingContract: toAddress(chain.contracts.settlement) }
const traders = Array.from({ length: 20 }, () => makeTrader())
const seeded = new Set(Array.from({ length: SEEDED_MARKETS }, (_, number) => marketId(number)))
const all = (await read<Markets>('/api/v1/markets')).markets
const markets = all.map(({ id }) => id).filter((id) => !seeded.has(id))
const perMarket = TRADES / SEEDED_MARKETS
const deep = `/api/v1/trades/${marketId(0)}?before=${marketId(0)}-${Math.floor(perMarket / 2)}-0`
try {
  await measure('warm-up', undefined, 0)
  await measure('nothing', undefined, 0)
  await measure('300 /metrics a second', writeRequest('GET', '/metrics', '', READER), 300)
  await measure('450 trades?before a second', writeRequest('GET', deep, '', READER), 450)
} finally {
  await exchange.dispose()
}
