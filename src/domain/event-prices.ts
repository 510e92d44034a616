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
   * Sum of the best bids of YES over all markets except withdrawn ones; null if one of these markets is not open or has
   * no best bid. `askSum` is the same for asks.
   */
  readonly bidSum: number | null
  readonly askSum: number | null
  /**
   * Profit per share from trading in every market of the event. Above 0: the profit from selling YES in every market.
   * Below 0: the negated profit from buying YES in every market; this profit is certain only if one of the markets must
   * resolve to YES. 0: neither selling nor buying gives a profit.
   */
  readonly gap: number
}

/**
 * Returns the price of YES: after the resolution the payout, before the resolution the chance; undefined if the price
 * is unknown.
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
