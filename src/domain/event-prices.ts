/** Prices of an exclusive event. At most one of its markets pays, so its YES prices should add up to at most 1. */

import { chanceOf } from './chance.ts'
import { ONE } from './money.ts'
import { NO, YES } from './order.ts'

export type EventQuote = {
  readonly status: 'open' | 'expired' | 'resolved' | 'withdrawn'
  readonly winningOutcome?: number | undefined
} & Parameters<typeof chanceOf>[0]

type EventPrices = {
  /** Sum of the prices of YES. */
  readonly yesSum: number
  /** Number of markets without a price. */
  readonly unpriced: number
  /**
   * Sum of the best YES bids of all markets, except withdrawn markets. Null if any of these markets is not open or has
   * no bid. `askSum` is the same for asks.
   */
  readonly bidSum: number | null
  readonly askSum: number | null
  /**
   * Arbitrage profit per share from trading YES in every market of the event. If positive, selling YES in every market
   * gives this profit. If negative, buying YES in every market gives a profit of the same amount, but only if one of
   * the markets must resolve to YES. 0 means that neither trade gives a profit.
   */
  readonly gap: number
}

/**
 * Returns the price of YES. This is the payout of a resolved market, and the chance of any other market; undefined if
 * the chance is unknown.
 */
function yesPrice(quote: EventQuote): number | undefined {
  const { status, winningOutcome } = quote
  if (status === 'resolved' && winningOutcome !== undefined) return winningOutcome === NO ? 0 : ONE
  return chanceOf(quote)
}

export function eventPrices(quotes: readonly EventQuote[]): EventPrices {
  const shown = quotes.filter(({ status }) => status !== 'withdrawn')
  const prices = shown.map(yesPrice)
  const bidSum = sumOf(shown, ({ bestBidPrices }) => bestBidPrices[YES])
  const askSum = sumOf(shown, ({ bestAskPrices }) => bestAskPrices[YES])
  const over = bidSum === null ? 0 : Math.max(0, bidSum - ONE)
  const under = askSum === null ? 0 : Math.min(0, askSum - ONE)
  return {
    yesSum: prices.reduce<number>((sum, price) => sum + (price ?? 0), 0),
    unpriced: prices.filter((price) => price === undefined).length,
    bidSum,
    askSum,
    gap: over > 0 ? over : under,
  }
}

function sumOf(
  quotes: readonly EventQuote[],
  priceOf: (quote: EventQuote) => number,
): number | null {
  let sum = 0
  for (const quote of quotes) {
    const price = priceOf(quote)
    if (quote.status !== 'open' || price === 0) return null
    sum += price
  }
  return quotes.length === 0 ? null : sum
}
