/**
 * Cancels filled orders. An unsettled fill may still fail and return its quantity to the book; a cancel prevents that.
 */

import type { CancelCause } from '#domain/order-tags.ts'
import type { ClosedOrder } from '#log/event-log.ts'
import type { OrderCancelled } from '#protocol/market.ts'
import { close, closedBy, type MarketContext, secondsOf } from './orders.ts'
import type { MarketState } from './state.ts'

/**
 * Cancels a filled order. Returns undefined if nothing is left to cancel, because no quantity of the order can return
 * to the book.
 */
export function cancelFilled(
  state: MarketState,
  filled: ClosedOrder,
  context: MarketContext,
  {
    why = 'cancelled',
    cause,
  }: { readonly why?: 'cancelled' | 'unfunded'; readonly cause?: CancelCause | undefined } = {},
): OrderCancelled | undefined {
  const { orderHash, trader, outcome } = filled
  if (filled.reason !== 'filled' || filled.marketId !== state.market.id) return undefined
  const nowSec = secondsOf(context.nowMs)
  if (filled.expiresAtSec <= nowSec || state.pending.sizeOf(trader, orderHash) === 0) {
    return undefined
  }
  if (closedBy(state, nowSec, context)) return undefined
  close(state, outcome, { ...filled, remaining: 0 }, orderHash, why, context, cause)
  return cancelledAnswer(state, filled)
}

/** Returns the answer to a cancel, with the order's pending size. */
export function cancelledAnswer(
  state: MarketState,
  { orderHash, trader }: Pick<ClosedOrder, 'orderHash' | 'trader'>,
): OrderCancelled {
  const pendingSize = state.pending.sizeOf(trader, orderHash)
  const answer: OrderCancelled = { status: 'cancelled', orderHash }
  return pendingSize === 0 ? answer : { ...answer, pendingSize }
}
