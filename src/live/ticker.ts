/** Ticker of a market, for lists and the stream: best prices, last prices, and figures of the last 24 hours. */

import type { Static } from 'typebox'
import { type CloseReason, type Market, matchingOf } from '#domain/market.ts'
import { BUY, NO, SELL, type Side, YES } from '#domain/order.ts'
import { exactInteger } from '#http/json.ts'
import type { Ticker } from '#protocol/shapes/markets.ts'
import type { ShownMarket } from './market-board.ts'
import type { MarketFigures } from './market-figures.ts'

export const TICKER_EXAMPLE = {
  status: 'open',
  quick: false,
  matching: 'same-outcome',
  bestBidPrices: [410_000, 560_000],
  bestAskPrices: [430_000, 590_000],
  lastPrice: 430_000,
  lastOutcome: 0,
  lastPrices: [430_000, 560_000],
  priceChanges24h: [-20_000, 15_000],
  volume24h: 1_075_000,
  trades24h: 1,
  totalVolume: 52_340_000,
  seq: 17,
} as const

/** Returns the ticker of a market. `shown` is undefined after the market ended and its thread unloaded it. */
export function tickerBody(
  market: Pick<Market, 'quick' | 'matching'> & { readonly closed: CloseReason | undefined },
  shown: ShownMarket | undefined,
  figures: MarketFigures | undefined,
): Static<typeof Ticker> {
  const best = (side: Side): [number, number] =>
    shown === undefined ? [0, 0] : [shown.books[YES].best(side), shown.books[NO].best(side)]
  return {
    status: market.closed ?? 'open',
    quick: market.quick,
    matching: matchingOf(market),
    bestBidPrices: best(BUY),
    bestAskPrices: best(SELL),
    ...(figures === undefined ? NOT_KNOWN : figuresBody(figures)),
    seq: shown?.seq ?? 0,
  }
}

const NOT_KNOWN = {
  ...{ lastPrice: null, lastOutcome: null, lastPrices: null, priceChanges24h: null },
  ...{ volume24h: null, trades24h: null, totalVolume: null },
}

function figuresBody(figures: MarketFigures) {
  const { lastOutcome, lastPrices, priceChanges24h, trades24h } = figures
  return {
    lastPrice: lastOutcome === null ? 0 : lastPrices[lastOutcome],
    lastOutcome,
    lastPrices: [...lastPrices] as [number, number],
    priceChanges24h: [...priceChanges24h] as [number | null, number | null],
    volume24h: exactInteger(figures.volume24h),
    trades24h,
    totalVolume: exactInteger(figures.totalVolume),
  }
}
