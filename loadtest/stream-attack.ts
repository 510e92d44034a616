/**
 * `npm run soak -- stream-attack [seconds [attack]]`: an honest client places orders and asks for `/healthz` while one
 * address, then ten, attack the stream (`hostile-stream.ts`). Prints the quantiles of each phase beside the
 * quiet ones, and the memory. Exits with 1 when the exchange ends or the honest client gets no answer.
 */

import type { Address, MarketId } from '#domain/ids.ts'
import { openExchange } from '../test/support/exchange.ts'
import { Histogram } from './histogram.ts'
import {
  type AttackFigures,
  conflatedSnapshots,
  deepenBook,
  tickerTopics,
} from './hostile-stream.ts'
import { openDriver, writeRequest } from './http-driver.ts'
import { openResident } from './resident.ts'
import { makeTrader, signOrders } from './signed-orders.ts'

const SECONDS = Number(process.argv[2] ?? 30)
const ONLY = process.argv[3]
const ORDERS_PER_SECOND = 40
const HEALTH_PER_SECOND = 20
const MARKETS = 250

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

async function phase(name: string, attacks: Promise<AttackFigures>[]): Promise<void> {
  const [orders, health] = [new Histogram(), new Histogram()]
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
    residentMiB: Math.round(await residentMiB()),
    attacks: await Promise.all(attacks),
  }
  process.stdout.write(`${JSON.stringify(line)}\n`)
}

const addresses = (from: number, count: number) =>
  Array.from({ length: count }, (_, index) => `127.0.9.${from + index}`)

try {
  await deepenBook(url)
  await phase('quiet', [])
  for (const [name, attack] of Object.entries({ tickerTopics, conflatedSnapshots })) {
    if (ONLY !== undefined && name !== ONLY) continue
    for (const count of [1, 10]) {
      const from = addresses(name === 'tickerTopics' ? 1 : 101, count)
      await phase(
        `${name} from ${count}`,
        from.map((address) => attack(url, address, SECONDS)),
      )
    }
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
