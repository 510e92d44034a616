/**
 * Orders that end with their session, at a market thread: those that a lost front held are cancelled, and after a
 * restart those that no front claims.
 */

import type { HeldOrder } from '#protocol/market-followers.ts'
import type { Kit } from '#services/kit/kit.ts'
import type { MarketThread } from '../host/market-host.ts'
import { OrderHolds, OrphanedOrders, unclaimedHolds } from '../host/order-holds.ts'
import type { Commands } from './commands.ts'

/** Time for fronts to reclaim the session orders in the log after a restart. */
const CLAIM_MS = 5_000

export type SessionOrders = {
  /** Those of the sessions of a front that is linked now. */
  link(): OrderHolds
  /** The front is gone. Its sessions end with it, unless it is this thread that ends. */
  unlink(holds: OrderHolds, isLost: boolean): void
  /** Loaded markets may have orders of sessions that ended together with this thread. */
  awaitClaims(): void
  /** Cancels what no front has claimed in time, and asks again for cancels that were not answered. */
  look(): void
}

export function makeSessionOrders(
  thread: MarketThread,
  { log, monotonicMs }: Pick<Kit, 'log' | 'monotonicMs'>,
  { hear }: Pick<Commands, 'hear'>,
): SessionOrders {
  /** Session orders of fronts that are gone. */
  const orphans = new OrphanedOrders((order, answered) =>
    hear('CancelOrder', order, 1, { reply: (_, answer) => answered(answer) }),
  )
  /** Session orders of live fronts. */
  const claimed = new Set<OrderHolds>()
  /** Deadline for fronts to claim held orders, on the monotonic clock; the rest are cancelled. */
  let claimedByMs = Number.POSITIVE_INFINITY

  /** Keeps orders whose session continues without holding them, also after a restart. */
  function keep(orders: readonly HeldOrder[]): void {
    for (const { marketId, orderHash } of orders) {
      const isHeld = thread.markets.get(marketId)?.state.held.has(orderHash)
      if (isHeld) hear('KeepOrder', { marketId, orderHash }, 0, undefined)
    }
  }

  function cancelUnclaimed(): void {
    if (monotonicMs() < claimedByMs) return
    claimedByMs = Number.POSITIVE_INFINITY
    const orders = unclaimedHolds(thread.markets, claimed)
    if (orders.length === 0) return
    log.warn({ orders: orders.length }, 'orders whose sessions are gone are cancelled')
    orphans.add(orders)
  }

  return {
    link() {
      const holds = new OrderHolds(keep)
      claimed.add(holds)
      return holds
    },
    unlink(holds, isLost) {
      if (isLost) orphans.add(holds.takeAll())
      claimed.delete(holds)
    },
    awaitClaims() {
      claimedByMs = monotonicMs() + CLAIM_MS
    },
    look() {
      cancelUnclaimed()
      orphans.retry()
    },
  }
}
