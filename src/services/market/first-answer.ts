/** Answers an order that the market already knows. The answer is the order’s first answer, or `ORDER_CLOSED`. */

import type { OrderHash } from '#domain/ids.ts'
import type { VerifiedOrder } from '#domain/order.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { OrderAccepted } from '#protocol/market.ts'
import { type MarketContext, secondsOf, withdraw } from './orders.ts'
import type { MarketState } from './state.ts'

/**
 * Returns the first answer to an order that rests, was filled, or was `taken` (matched without ever resting). Returns
 * `ORDER_CLOSED` if the order has expired or has ended for another reason. Returns undefined if the order is new.
 */
export function firstAnswer(
  state: MarketState,
  { orderHash, outcome }: Pick<VerifiedOrder, 'orderHash' | 'outcome'>,
  context: MarketContext,
): OrderAccepted | Rejection | undefined {
  const closed = state.recall.closed.get(orderHash)
  if (closed !== undefined) {
    if (closed.reason === 'taken') return { ...acceptedBefore(closed), filled: closed.size }
    return closed.reason === 'filled' ? acceptedBefore(closed) : reject('ORDER_CLOSED')
  }
  const slot = state.books[outcome].locate(orderHash)
  if (slot < 0) return undefined
  const resting = state.books[outcome].read(slot, orderHash)
  if (resting.expiresAtSec > secondsOf(context.nowMs)) return acceptedBefore(resting)
  withdraw(state, outcome, slot, resting, context)
  return reject('ORDER_CLOSED')
}

function acceptedBefore(order: {
  orderHash: OrderHash
  matches: number
  placedAtMs: number
}): OrderAccepted {
  return {
    orderHash: order.orderHash,
    status: 'accepted',
    matches: order.matches,
    timestamp: secondsOf(order.placedAtMs),
    duplicate: true,
  }
}
