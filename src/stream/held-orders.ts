/**
 * Cancel on disconnect: the orders that go when their session does. Each is first made known to its
 * market thread and then placed, so that they are cancelled also when this thread dies; while it
 * lives, it cancels them itself, until the markets have answered.
 */

import type { HeldOrder, HoldsProtocol } from '#actors/order-holds.ts'
import type { MarketId, OrderHash } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import type { VerifiedOrder } from '#domain/order.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { MarketGateway } from '#live/market-gateway.ts'
import { isUnanswered } from '#runtime/channel.ts'
import type { Clock } from '#runtime/clock.ts'
import type { Ref } from '#runtime/ref.ts'

export type HeldOrders = {
  /** To be awaited before the order is placed; a rejection forbids to place it. */
  hold(session: string, order: VerifiedOrder): Promise<Rejection | undefined>
  /** It was not placed after all. */
  release(session: string, orderHash: OrderHash): void
  /** Cancels everything that the session holds. */
  end(session: string): void
  /** The session keeps its orders from now on. */
  forget(session: string): void
  /** An order that has ended needs nobody to hold it. */
  followed(event: MarketEvent): void
  /** A market thread has come back and knows nothing of what was held. */
  repeat(thread: number): void
  /** Resolves when nothing is left to be cancelled. */
  settled(): Promise<void>
}

/** Cancels of one session that are under way at once. */
const CANCELS_AT_ONCE = 32
const CANCEL_AGAIN_MS = 250

export function makeHeldOrders(parts: {
  readonly threads: readonly Ref<HoldsProtocol>[]
  readonly threadOf: (marketId: MarketId) => number
  readonly gateway: Pick<MarketGateway, 'cancel'>
  readonly clock: Clock
  /** Open orders that one session may hold. */
  readonly perSessionMax: number
  readonly deadlineMs: number
}): HeldOrders {
  const { threads, threadOf, gateway, clock, deadlineMs } = parts
  const sessions = new Map<string, Map<OrderHash, HeldOrder>>()
  const holders = new Map<OrderHash, string>()
  const ending = new Set<Promise<void>>()

  const refOf = (marketId: MarketId): Ref<HoldsProtocol> | undefined => threads[threadOf(marketId)]

  async function tellThread(session: string, order: HeldOrder): Promise<Rejection | undefined> {
    const answer = await refOf(order.marketId)?.ask('HoldOrder', { session, order }, deadlineMs)
    if (answer === undefined || isUnanswered(answer)) return reject('OVERLOADED')
    return isRejection(answer) ? answer : undefined
  }

  function release(session: string, orderHash: OrderHash): void {
    const order = sessions.get(session)?.get(orderHash)
    if (order === undefined) return
    sessions.get(session)?.delete(orderHash)
    if (holders.get(orderHash) === session) holders.delete(orderHash)
    refOf(order.marketId)?.tell('ReleaseOrder', { session, orderHash })
  }

  function drop(session: string): HeldOrder[] {
    const orders = [...(sessions.get(session)?.values() ?? [])]
    sessions.delete(session)
    for (const { orderHash } of orders) {
      if (holders.get(orderHash) === session) holders.delete(orderHash)
    }
    return orders
  }

  /** Until the market has said what became of it. */
  async function cancel(order: HeldOrder): Promise<void> {
    for (;;) {
      const answer = await gateway.cancel(order, deadlineMs)
      const isOpen =
        isRejection(answer) &&
        (answer.rejected === 'OUTCOME_UNKNOWN' || answer.rejected === 'OVERLOADED')
      if (!isOpen) return
      await new Promise<void>((resolve) => void clock.after(CANCEL_AGAIN_MS, resolve))
    }
  }

  async function cancelAll(session: string, orders: HeldOrder[]): Promise<void> {
    for (let at = 0; at < orders.length; at += CANCELS_AT_ONCE) {
      await Promise.all(orders.slice(at, at + CANCELS_AT_ONCE).map(cancel))
    }
    for (const thread of threads) thread.tell('DropSession', { session })
  }

  return {
    async hold(session, { marketId, orderHash, side, trader }) {
      const orders = sessions.get(session) ?? new Map<OrderHash, HeldOrder>()
      sessions.set(session, orders)
      if (orders.size >= parts.perSessionMax && !orders.has(orderHash)) {
        const detail = `a session may hold ${parts.perSessionMax} open orders`
        return reject('RATE_LIMITED', undefined, detail)
      }
      const order = { marketId, orderHash, side, trader }
      orders.set(orderHash, order)
      holders.set(orderHash, session)
      const refused = await tellThread(session, order)
      // The session may have ended meanwhile, and with it whatever it was going to hold.
      if (sessions.get(session) !== orders) return reject('OVERLOADED')
      if (refused !== undefined) release(session, orderHash)
      return refused
    },
    release,
    end(session) {
      const orders = drop(session)
      if (orders.length === 0) return
      const done = cancelAll(session, orders)
      ending.add(done)
      void done.finally(() => ending.delete(done))
    },
    forget(session) {
      if (drop(session).length === 0) return
      for (const thread of threads) thread.tell('DropSession', { session })
    },
    followed(event) {
      if (holders.size === 0) return
      if (event.type === 'OrderClosed') {
        const session = holders.get(event.orderHash)
        if (session !== undefined) release(session, event.orderHash)
      } else if (event.type === 'MarketClosed') {
        for (const [session, orders] of sessions) {
          for (const { marketId, orderHash } of [...orders.values()]) {
            if (marketId === event.marketId) release(session, orderHash)
          }
        }
      }
    },
    repeat(thread) {
      for (const [session, orders] of sessions) {
        for (const order of orders.values()) {
          if (threadOf(order.marketId) === thread) void tellThread(session, order)
        }
      }
    },
    async settled() {
      await Promise.all(ending)
    },
  }
}
