/** The quotes of the demo maker in one outcome: a ladder of prices around the outcome's fair value. */

import type { OrderIntent } from '#client/build-order.ts'
import { PRICE_MAX, PRICE_MIN } from '#domain/money.ts'
import type { OpenOrder } from '#protocol/shapes/orders.ts'

type QuoteTerms = {
  readonly marketId: string
  readonly outcome: 'YES' | 'NO'
  /** Fair value of a share, in millionths. */
  readonly fair: number
  /** Difference of best bid and best ask, in millionths. */
  readonly spread: number
  /** Number of prices on each side, one step apart. */
  readonly levels: number
  /** Shares at each price, in millionths. */
  readonly size: number
  readonly ttlSeconds: number
}

/** Distance between two prices: a cent. */
const STEP = 10_000

export function ladder(terms: QuoteTerms): OrderIntent[] {
  const { marketId, outcome, fair, spread, levels, size, ttlSeconds } = terms
  const common = { marketId, outcome, size, ttlSeconds } as const
  const bid = Math.floor((fair - spread / 2) / STEP) * STEP
  const ask = Math.max(bid + STEP, Math.ceil((fair + spread / 2) / STEP) * STEP)
  const quotes: OrderIntent[] = []
  for (let level = 0; level < levels; level++) {
    const [below, above] = [bid - level * STEP, ask + level * STEP]
    if (below >= PRICE_MIN) quotes.push({ ...common, side: 'buy', price: below })
    if (above <= PRICE_MAX) quotes.push({ ...common, side: 'sell', price: above })
  }
  return quotes
}

/** Moves a fair value by a random amount of at most `STEP`, and keeps it between 0.1 and 0.9. */
export function drift(fair: number, chance: number): number {
  const moved = fair + Math.round((chance - 0.5) * 2 * STEP)
  return Math.min(900_000, Math.max(100_000, moved))
}

/**
 * Returns the fair value of YES in a quick market. It is 0.5 at the start price. It rises to 0.9 if the price is one
 * percent higher or more, and falls to 0.1 if the price is one percent lower or more.
 */
export function fairOfPrice(startPrice: number, price: number): number {
  const percent = ((price - startPrice) / startPrice) * 100
  return Math.round(500_000 + Math.min(400_000, Math.max(-400_000, percent * 400_000)))
}

export const OUTCOMES = ['YES', 'NO'] as const

/**
 * Splits the old quotes into `now` and `later`. `now` contains the old quotes that a rejected new quote could match, so
 * they must be cancelled before the rejected quote is placed again. A quote can match quotes on the other side of its
 * own book. In a complementary market, it can also match quotes on the same side of the other outcome's book. `later`
 * contains all other old quotes.
 */
export function cancelOrder<Old extends Pick<OpenOrder, 'side' | 'outcome'>>(
  old: readonly Old[],
  refused: readonly Pick<OrderIntent, 'side' | 'outcome'>[],
): { readonly now: readonly Old[]; readonly later: readonly Old[] } {
  const isMet = ({ side, outcome }: Old) =>
    refused.some(
      (quote) =>
        (quote.outcome === OUTCOMES[outcome]) === (quote.side === (side === 0 ? 'sell' : 'buy')),
    )
  return { now: old.filter(isMet), later: old.filter((order) => !isMet(order)) }
}
