/**
 * Measures the latency of book changes: the time from the handling of an order until every client has received the
 * change of the book. The setup is a real exchange with its log. Orders arrive over HTTP at a steady pace, and very
 * many sockets follow the book. The clock starts when the market thread begins to handle the order (`ts` of the
 * change). So the time includes the commit. Every reader must receive every change.
 */

import { type MarketId, toAddress } from '#domain/ids.ts'
import { openExchange } from '../test/support/exchange.ts'
import { Histogram } from './histogram.ts'
import { askReaders, followBook, startProcess, stopProcess } from './reader-process.ts'
import { makeTrader, signOrders } from './signed-orders.ts'

type Config = { chains: { chainId: number; contracts: { settlement: string } }[] }
type Markets = { markets: { id: MarketId }[] }

export type Latency = {
  readonly orders: number
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
}

export async function measureLatency(
  sockets: number,
  orders: number,
  perSecond: number,
): Promise<Latency> {
  const exchange = await openExchange({
    environment: { SIBYL_LOG_LEVEL: 'error', SIBYL_LIMITS: 'false' },
  })
  const readers = startProcess('./stream-readers.ts')
  try {
    const read = async <T>(path: string): Promise<T> =>
      (await fetch(exchange.url + path)).json() as Promise<T>
    const [chain] = (await read<Config>('/api/v1/config')).chains
    const [market] = (await read<Markets>('/api/v1/markets')).markets
    if (chain === undefined || market === undefined)
      throw new Error('the exchange has no chain or no market')
    const verifyingContract = toAddress(chain.contracts.settlement)
    const signed = signOrders({
      count: orders + WARMUPS,
      traders: Array.from({ length: 10 }, makeTrader),
      markets: [market.id],
      domain: { chainId: chain.chainId, verifyingContract },
    })
    const port = Number(new URL(exchange.url).port)
    await askReaders(readers, { open: sockets, port, request: followBook(market.id, 0) })

    const place = async (one: (typeof signed)[number]): Promise<void> => {
      const response = await fetch(`${exchange.url}/api/v1/orders`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(one),
      })
      if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`)
    }
    /** Sends each order at its planned time, whether or not earlier orders were answered (open loop). */
    const placeAll = async (some: typeof signed): Promise<void> => {
      const allTold = askReaders(readers, { expect: some.length })
      const beganMs = performance.now()
      const answers = some.map(async (one, index) => {
        const dueMs = beganMs + (index * 1_000) / perSecond
        await new Promise((resolve) => setTimeout(resolve, dueMs - performance.now()))
        await place(one)
      })
      await Promise.all(answers)
      await allTold
    }
    await placeAll(signed.slice(0, WARMUPS))
    await askReaders(readers, 'latencies')
    await placeAll(signed.slice(WARMUPS))
    const answer = await askReaders(readers, 'latencies')
    const latencies = Histogram.of('latenciesMs' in answer ? answer.latenciesMs : [])
    const [p50Ms, p99Ms] = [latencies.quantileMs(0.5), latencies.quantileMs(0.99)]
    return { orders, perSecond, p50Ms, p99Ms }
  } finally {
    await stopProcess(readers)
    await exchange.dispose()
  }
}

const WARMUPS = 10
