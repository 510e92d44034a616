/** The reads of a market view that go to the exchange's REST paths. */

import { createTransport } from '#client/transport.ts'
import { exchangeUrl } from '../state/exchange.ts'
import type { Candle, Interval } from './candle-series.ts'

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
