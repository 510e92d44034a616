/** How an order is to be placed, from the options that come with it; they are not signed. */

import type { Order, TimeInForce } from '#domain/order.ts'
import { BUY, SELL } from '#domain/order.ts'
import { notFilled, type Rejection, reject, wouldMatch } from '#domain/rejection.ts'
import type { ShownMarket } from '#live/market-board.ts'
import type { OrderSubmission } from './order-shapes.ts'

type Options = Pick<OrderSubmission, 'postOnly' | 'timeInForce'>

/** Undefined for an order that matches what it can and rests with what is left. */
export function timeInForceOf({ postOnly, timeInForce = 'GTC' }: Options): TimeInForce | undefined {
  if (timeInForce !== 'GTC') return timeInForce
  return postOnly === true ? 'POST_ONLY' : undefined
}

export function optionsFlaw({ postOnly, timeInForce = 'GTC' }: Options): Rejection | undefined {
  if (postOnly !== true || timeInForce === 'GTC') return undefined
  const detail = `an order that is postOnly rests, so its timeInForce cannot be ${timeInForce}`
  return reject('INVALID_FIELD', 'timeInForce', detail)
}

/** Why the market would refuse the order in this time in force, as far as a front knows its book. */
export function timeInForceFlawNow(
  shown: ShownMarket,
  { side, outcome, price, size }: Order,
  timeInForce: TimeInForce,
): Rejection | undefined {
  let first = 0
  let filled = 0n
  for (const [at, total] of shown.books[outcome].levels(side === BUY ? SELL : BUY)) {
    if (side === BUY ? at > price : at < price) break
    first ||= at
    filled += BigInt(total)
    if (filled >= size) break
  }
  if (timeInForce === 'POST_ONLY') return first === 0 ? undefined : wouldMatch(first)
  if (timeInForce === 'IOC' ? filled > 0n : filled >= size) return undefined
  return notFilled(Number(filled), size)
}
