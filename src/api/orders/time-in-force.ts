/** Time in force of an order, from its unsigned options. */

import { BUY, type Order, SELL } from '#domain/order.ts'
import type { Rejection } from '#domain/rejection.ts'
import { type TimeInForce, timeInForceFlaw } from '#domain/time-in-force.ts'
import { bookOf, type ShownMarket } from '#live/market-board.ts'
import type { OrderSubmission } from './order-shapes.ts'

type Options = Pick<OrderSubmission, 'postOnly' | 'timeInForce'>

/**
 * Returns the time in force of an order. Undefined stands for a normal order: it matches as much as possible, and its
 * remainder rests in the book.
 */
export function timeInForceOf({ postOnly, timeInForce = 'GTC' }: Options): TimeInForce | undefined {
  if (timeInForce !== 'GTC') return timeInForce
  return postOnly === true ? 'POST_ONLY' : undefined
}

/**
 * Returns a rejection if the market would now reject the order because of its time in force. The check uses the book on
 * this front.
 */
export function timeInForceFlawNow(
  shown: ShownMarket,
  { side, outcome, price, size }: Order,
  timeInForce: TimeInForce,
): Rejection | undefined {
  let first = 0
  let filled = 0n
  for (const [at, total] of bookOf(shown, outcome, true).levels(side === BUY ? SELL : BUY)) {
    if (side === BUY ? at > price : at < price) break
    first ||= at
    filled += BigInt(total)
    if (filled >= size) break
  }
  return timeInForceFlaw(timeInForce, { price: first, filled }, size)
}
