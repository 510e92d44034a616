/** The reads of a market view that go to the exchange's REST paths. */

import type { Market } from '#client/answers.ts'
import { createTransport } from '#client/transport.ts'
import { exchangeUrl } from '../state/exchange.ts'
import type { Candle, Interval } from './candle-series.ts'

/** A market with its figures. Pairs are of YES and NO; 0 where there is none. */
export type MarketLine = Market & {
  readonly status: 'open' | 'expired' | 'resolved' | 'withdrawn'
  readonly quick: boolean
  readonly bestBidPrices: readonly [number, number]
  readonly bestAskPrices: readonly [number, number]
  readonly lastPrices: readonly [number, number] | null
  readonly priceChanges24h: readonly [number | null, number | null] | null
  readonly volume24h: number | null
  readonly trades24h: number | null
  readonly totalVolume: number | null
}

export type Position = {
  readonly yesShares: number
  readonly noShares: number
  readonly yesCost?: number
  readonly noCost?: number
}

export type Holders = {
  readonly topHolders: readonly {
    readonly address: string
    readonly yesShares: number
    readonly noShares: number
    readonly totalInvested: number
  }[]
  readonly totalHolders: number
}

export type ActivityEntry = {
  readonly tradeId: string
  readonly marketId: string
  readonly role: 'buyer' | 'seller'
  readonly outcome: 0 | 1
  readonly price: number
  readonly size: number
  readonly cost: number
  readonly status: string
  readonly timestamp: number
  readonly txHash: string
}

export type PayoutEntry = {
  readonly marketId: string
  readonly winningOutcome: 0 | 1
  readonly payout: number
  readonly status: string
  readonly timestamp: number
  readonly txHash: string
}

const send = createTransport({
  url: exchangeUrl,
  headers: undefined,
  timeoutMs: 15_000,
  retries: 2,
  backoffMs: 200,
  fetch: (input, init) => fetch(input, init),
})

function read<Answer>(
  path: string,
  query: Readonly<Record<string, string | number | undefined>> = {},
): Promise<Answer> {
  return send<Answer>({ method: 'GET', path: `/api/v1/${path}`, query })
}

export const readMarket = (marketId: string) => read<MarketLine>(`markets/${marketId}`)

export async function readCandles(
  marketId: string,
  outcome: 'YES' | 'NO',
  interval: Interval,
): Promise<readonly Candle[]> {
  const path = `candles/${marketId}`
  return (await read<{ candles: readonly Candle[] }>(path, { outcome, interval })).candles
}

export const readPosition = (marketId: string, user: string) =>
  read<Position>(`positions/${marketId}`, { user })

export const readHolders = (marketId: string) => read<Holders>(`holders/${marketId}`)

export async function readOpenInterest(marketId: string): Promise<number> {
  return (await read<{ openInterest: number }>(`stats/${marketId}`)).openInterest
}

export const readActivity = (address: string, chainId: number) =>
  read<{ activity: readonly ActivityEntry[]; settlements: readonly PayoutEntry[] }>(
    `users/${address}/activity`,
    { chain_id: chainId, limit: 100 },
  )
