/**
 * `npm run bench -- own-write`: measures whether a client can read its own write at an exchange with two fronts. Places
 * each order on one connection. Right after the answer, reads the book on another connection, which may belong to the
 * other front. If the answer has a `seq`, the read sends it as `minSeq`. Prints in how many books the order is missing,
 * and how long the reads took. Exits with 1 if an order is missing or a request failed.
 */

import { randomBytes } from 'node:crypto'
import { type Address, type MarketId, type Uint64, ZERO_ADDRESS } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import { type Order, SELL, YES } from '#domain/order.ts'
import { openExchange } from '../test/support/exchange.ts'
import { Histogram } from './histogram.ts'
import { type Answer, openDriver, type Request, writeRequest } from './http-driver.ts'
import { makeOrderSigner, makeTrader } from './signed-orders.ts'

const READS = 1_200
const CONNECTIONS = 16
const AT_ONCE = 4
/** Lowest price of the orders. Each order has its own price, so that the book shows which orders have arrived. */
const PRICE_MIN = 500_000

const exchange = await openExchange({
  environment: { SIBYL_LOG_LEVEL: 'error', SIBYL_FRONT_THREADS: '2' },
})

type Config = { chains: { chainId: number; contracts: { settlement: string } }[] }
type Markets = { markets: { id: MarketId }[] }
type Book = { asks: { price: number }[] }

async function read<T>(path: string): Promise<T> {
  return (await fetch(exchange.url + path)).json() as Promise<T>
}

try {
  const [chain] = (await read<Config>('/api/v1/config')).chains
  if (chain === undefined) throw new Error('the exchange has no chain configured')
  const verifyingContract = chain.contracts.settlement.toLowerCase() as Address
  const sign = makeOrderSigner({ chainId: chain.chainId, verifyingContract })
  const [market] = (await read<Markets>('/api/v1/markets')).markets
  if (market === undefined) throw new Error('the exchange has no market')
  const marketId = market.id
  const trader = makeTrader()
  const expiration = String(Math.floor(Date.now() / 1_000) + 86_400) as Uint64
  const placing = await openDriver(exchange.url, CONNECTIONS)
  const reading = await openDriver(exchange.url, CONNECTIONS)
  const ask = (driver: typeof placing, request: Request): Promise<Answer> =>
    new Promise((resolve) => driver.send(request, performance.now(), resolve))

  function orderAt(price: number): Request {
    const order: Order = {
      ...{ marketId, trader: trader.address, side: SELL, outcome: YES },
      ...{ price: price as Price, size: 1_000_000 as Shares, expiration },
      nonce: randomBytes(8).readBigUInt64BE().toString() as Uint64,
      makerFeeRecipient: ZERO_ADDRESS,
    }
    const { signature } = sign(order, trader.key)
    return writeRequest('POST', '/api/v1/orders', JSON.stringify({ order, signature }))
  }

  let next = 0
  let lacking = 0
  let failed = 0
  let withSeq = 0
  const latencies = new Histogram()
  async function lane(): Promise<void> {
    for (let at = next++; at < READS; at = next++) {
      const price = PRICE_MIN + at
      const placed = await ask(placing, orderAt(price))
      const { seq } = JSON.parse(placed.body) as { seq?: number }
      if (seq !== undefined) withSeq++
      const query = seq === undefined ? '' : `&minSeq=${seq}`
      const path = `/api/v1/orderbook/${marketId}?outcome=YES${query}`
      const answer = await ask(reading, writeRequest('GET', path, ''))
      if (placed.status !== 200 || answer.status !== 200) {
        failed++
        continue
      }
      latencies.recordMs(answer.latencyMs)
      const { asks } = JSON.parse(answer.body) as Book
      if (!asks.some((level) => level.price === price)) lacking++
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, lane))
  placing.close()
  reading.close()
  const ms = (share: number) => Math.round(latencies.quantileMs(share) * 10) / 10
  const times = { readP50Ms: ms(0.5), readP99Ms: ms(0.99) }
  process.stdout.write(`${JSON.stringify({ reads: READS, lacking, failed, withSeq, ...times })}\n`)
  if (lacking > 0 || failed > 0) process.exitCode = 1
} finally {
  await exchange.dispose()
}
