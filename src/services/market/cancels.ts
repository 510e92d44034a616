/**
 * Cancels of orders that have left the book because they were filled. While a fill is not settled it may
 * fail, and its quantity would come back; a cancel keeps it from that.
 */

import type { ClosedOrder } from '#log/event-log.ts'
import type { OrderCancelled } from '#protocol/market.ts'
import { close, closedBy, type MarketContext, secondsOf } from './orders.ts'
import type { MarketState } from './state.ts'

/** Undefined when nothing of the order can come back, so that there is nothing to cancel. */
export function cancelFilled(
  state: MarketState,
  filled: ClosedOrder,
  context: MarketContext,
): OrderCancelled | undefined {
  const { orderHash, trader, outcome } = filled
  if (filled.reason !== 'filled' || filled.marketId !== state.market.id) return undefined
  const nowSec = secondsOf(context.nowMs)
  if (filled.expiresAtSec <= nowSec || state.pending.sizeOf(trader, orderHash) === 0) {
    return undefined
  }
  if (closedBy(state, nowSec, context)) return undefined
  close(state, outcome, { ...filled, remaining: 0 }, orderHash, 'cancelled', context)
  return cancelledAnswer(state, filled)
}

/** The answer to a cancel, with what is still pending of the order. */
export function cancelledAnswer(
  state: MarketState,
  { orderHash, trader }: Pick<ClosedOrder, 'orderHash' | 'trader'>,
): OrderCancelled {
  const pendingSize = state.pending.sizeOf(trader, orderHash)
  const answer: OrderCancelled = { status: 'cancelled', orderHash }
  return pendingSize === 0 ? answer : { ...answer, pendingSize }
}
