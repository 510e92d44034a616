/**
 * Market-maker protection: if the fills of an order group exceed the group's limit, the market cancels the group's
 * other orders in the same step.
 */

import type { OrderHash } from '#domain/ids.ts'
import { OUTCOMES } from '#domain/order.ts'
import type { CancelCause } from '#domain/order-tags.ts'
import { cancelFilled } from './cancels.ts'
import { type MarketContext, withdraw } from './orders.ts'
import type { MarketState } from './state.ts'

/**
 * Cancels the orders of groups whose limits were exceeded. Called after every match, before the command is answered.
 */
export function protect(state: MarketState, context: MarketContext): void {
  for (const orderHash of state.tagged.takeExceeded()) {
    cancelByMarket(state, orderHash, 'protection', context)
  }
}

/**
 * Cancels a resting order, or a filled order whose quantity may return to the book. Returns whether the order was
 * cancelled.
 */
export function cancelByMarket(
  state: MarketState,
  orderHash: OrderHash,
  cause: CancelCause,
  context: MarketContext,
): boolean {
  for (const outcome of OUTCOMES) {
    const slot = state.books[outcome].locate(orderHash)
    if (slot < 0) continue
    const resting = state.books[outcome].read(slot, orderHash)
    return withdraw(state, outcome, slot, resting, context, 'cancelled', cause) === 'cancelled'
  }
  const closed = state.recall.closed.get(orderHash) ?? filledOf(state, orderHash)
  return closed !== undefined && cancelFilled(state, closed, context, { cause }) !== undefined
}

/**
 * Returns how a filled order of a group ended, in the format of the partition's records of ended orders. Used if the
 * partition's own record is not in memory: a batch reads only the records of orders that its commands name.
 */
function filledOf(state: MarketState, orderHash: OrderHash) {
  const filled = state.tagged.filledOf(orderHash)
  if (filled === undefined) return undefined
  const { marketId, trader, side, outcome, price, size, reason, matches } = filled
  const { placedAtMs, expiresAtSec } = filled
  const forgetAfterSec = Math.min(expiresAtSec, state.market.expiration)
  return {
    ...{ orderHash, marketId, trader, side, outcome, price, size, reason, matches },
    ...{ placedAtMs, expiresAtSec, forgetAfterSec },
  }
}
