/** Trades of a match. */

import { tradeId } from './ids.ts'
import type { Fill, OrdersMatched } from './market-event.ts'
import { complementOf, type Price } from './money.ts'
import { BUY, NO, type Order, type Outcome, SELL, YES } from './order.ts'
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
      outcome: fill.kind === undefined ? taker.outcome : YES,
      price: tradePrice(taker, fill),
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

/** Returns whether the taker is the buyer of the trade: in a mint or merge, the side of YES. */
export function isTakerBuyer(
  { side, outcome }: OrdersMatched['taker'],
  { kind }: Pick<Fill, 'kind'>,
): boolean {
  return kind === undefined ? side === BUY : outcome === YES
}

/** Returns the kind of a trade between the order of YES, `buy`, and that of NO; undefined for any other pair. */
export function kindOf(
  buy: Pick<Order, 'side' | 'outcome'>,
  sell: Pick<Order, 'side' | 'outcome'>,
): FillKind | undefined {
  if (buy.side !== sell.side || buy.outcome !== YES || sell.outcome !== NO) return undefined
  return buy.side === BUY ? 'mint' : 'merge'
}

/** Returns the outcome in whose book the maker of a fill rested. */
export function makerOutcome(
  { outcome }: OrdersMatched['taker'],
  { kind }: Pick<Fill, 'kind'>,
): Outcome {
  if (kind === undefined) return outcome
  return outcome === YES ? NO : YES
}

/** Returns the price of the trade: in a mint or merge, that of YES. */
function tradePrice({ outcome }: OrdersMatched['taker'], { kind, price }: Fill): Price {
  return kind !== undefined && outcome === YES ? complementOf(price) : price
}
