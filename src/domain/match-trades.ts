/** Derives the trades of a match from its event. */

import { tradeId } from './ids.ts'
import type { OrdersMatched } from './market-event.ts'
import { BUY, type Order, type Outcome, otherOutcome, SELL, type Side } from './order.ts'
import type { FillKind, Trade } from './trade.ts'

/** Returns the trades of a match, in order. */
export function tradesOf({ marketId, seq, atMs, taker, fills }: OrdersMatched): Trade[] {
  return fills.map((fill, fillIndex) => {
    const isBuyer = isTakerBuyer(taker, fill)
    const trade: Trade = {
      tradeId: tradeId(marketId, seq, fillIndex),
      marketId,
      seq,
      fillIndex,
      outcome: makerOutcome(taker, fill),
      price: fill.price,
      size: fill.size,
      buyer: isBuyer ? taker.trader : fill.maker,
      seller: isBuyer ? fill.maker : taker.trader,
      buyOrderHash: isBuyer ? taker.orderHash : fill.makerHash,
      sellOrderHash: isBuyer ? fill.makerHash : taker.orderHash,
      takerSide: isBuyer ? BUY : SELL,
      matchedAtMs: atMs,
    }
    return fill.kind === undefined ? trade : { ...trade, kind: fill.kind }
  })
}

/**
 * Returns whether the trade records the taker as its buyer. A mint records the taker as the seller, and a merge records
 * the taker as the buyer.
 */
export function isTakerBuyer(
  { side }: Pick<Order, 'side'>,
  { kind }: { readonly kind?: FillKind | undefined },
): boolean {
  return (side === BUY) === (kind === undefined)
}

/** Returns the outcome in whose book the maker of a fill rested. */
export function makerOutcome(
  { outcome }: Pick<Order, 'outcome'>,
  { kind }: { readonly kind?: FillKind | undefined },
): Outcome {
  return kind === undefined ? outcome : otherOutcome(outcome)
}

/** Returns the side of the book in which the maker of a fill rested. */
export function makerSide(
  { side }: Pick<Order, 'side'>,
  { kind }: { readonly kind?: FillKind | undefined },
): Side {
  return (side === BUY) === (kind === undefined) ? SELL : BUY
}

/**
 * Returns the kind of a trade between two orders: `mint` if they buy different outcomes, `merge` if they sell different
 * outcomes, otherwise undefined.
 */
export function kindOf(
  buy: Pick<Order, 'side' | 'outcome'>,
  sell: Pick<Order, 'side' | 'outcome'>,
): FillKind | undefined {
  if (buy.side !== sell.side || buy.outcome === sell.outcome) return undefined
  return buy.side === BUY ? 'mint' : 'merge'
}
