/** Trades of a match. */

import { tradeId } from './ids.ts'
import type { OrdersMatched } from './market-event.ts'
import { BUY } from './order.ts'
import type { Trade } from './trade.ts'

/** Returns the trades of a match, in order. */
export function tradesOf({ marketId, seq, atMs, taker, fills }: OrdersMatched): Trade[] {
  const buys = taker.side === BUY
  return fills.map((fill, fillIndex) => ({
    tradeId: tradeId(marketId, seq, fillIndex),
    marketId,
    seq,
    fillIndex,
    outcome: taker.outcome,
    price: fill.price,
    size: fill.size,
    buyer: buys ? taker.trader : fill.maker,
    seller: buys ? fill.maker : taker.trader,
    buyOrderHash: buys ? taker.orderHash : fill.makerHash,
    sellOrderHash: buys ? fill.makerHash : taker.orderHash,
    takerSide: taker.side,
    matchedAtMs: atMs,
  }))
}
