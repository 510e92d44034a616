/**
 * Cancel on disconnect: orders that end with their session. Each names its session when placed, so its market thread
 * knows before it rests, and cancels it if this thread dies. While this thread lives, it cancels them itself until the
 * markets have answered.
 */

import type { MarketId, OrderHash } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import type { VerifiedOrder } from '#domain/order.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { MarketGateway } from '#live/market-gateway.ts'
import type { HeldOrder, HoldsProtocol } from '#protocol/market-followers.ts'
import { isUnanswered } from '#runtime/channel.ts'
import type { Clock } from '#runtime/clock.ts'
import type { Ref } from '#runtime/ref.ts'
import { makeUnsettledFills } from './unsettled-fills.ts'

export type HeldOrders = {
  /**
   * Registers an order right before it is placed for the session; it must not be placed after a rejection.
   */
  hold(session: string, order: VerifiedOrder): Rejection | undefined
  /** Releases an order that was not placed. */
  release(session: string, orderHash: OrderHash): void
  /** Cancels all orders of the session. */
  end(session: string): void
  /** Keeps the session's orders from now on. */
  forget(session: string): void
  /** Releases an order that has ended. */
  followed(event: MarketEvent): void
  /** Events of the market were missed and it was loaded again: releases orders that ended meanwhile. */
  missed(market: { readonly marketId: MarketId; readonly isClosed: boolean }): void
  /** The order was placed before: releases it if it has ended since. */
  placedAgain(session: string, orderHash: OrderHash): void
  /** Returns the markets of session orders, each once. */
  markets(): Iterable<MarketId>
  /** Registers orders again at a market thread that restarted or lost messages. */
  repeat(thread: number): Promise<void>
  /** Resolves when nothing is left to cancel. */
  settled(): Promise<void>
}

/** Concurrent cancels of one session. */
const CANCELS_AT_ONCE = 32
const CANCEL_AGAIN_MS = 250
/** Interval of checking an order that is filled and not settled. */
const RECALL_AGAIN_MS = 5_000
/** Concurrent checks of orders in one market. */
const RECALLS_AT_ONCE = 32
/** Orders registered again in one batch at a market thread. */
const REPEATED_AT_ONCE = 1_000

/** Same, with the fields needed to check it at its market. */
type OwnOrder = HeldOrder & Pick<VerifiedOrder, 'outcome'>

export function makeHeldOrders(ports: {
  readonly threads: readonly Ref<HoldsProtocol>[]
  readonly threadOf: (marketId: MarketId) => number
  readonly gateway: Pick<MarketGateway, 'cancel' | 'recall'>
  readonly clock: Clock
  /** Returns whether trades of the market are settled; otherwise none of them ever ends. */
  readonly isSettled?: (marketId: MarketId) => boolean
  /** Maximum number of orders per session: open ones, and filled ones that are not settled. */
  readonly perSessionMax: number
  readonly deadlineMs: number
}): HeldOrders {
  const { threads, threadOf, gateway, clock, deadlineMs } = ports
  const sessions = new Map<string, Map<OrderHash, OwnOrder>>()
  const holders = new Map<OrderHash, string>()
  /** Number of session orders by market; missing means none. */
  const inMarkets = new Map<MarketId, number>()
  const fills = makeUnsettledFills()
  const ending = new Set<Promise<void>>()
  /** By thread: number of repeats. An outdated repeat stops. */
  const repeats = new Map<number, number>()

  const refOf = (marketId: MarketId): Ref<HoldsProtocol> | undefined => threads[threadOf(marketId)]

  function count(marketId: MarketId, more: 1 | -1): void {
    const held = (inMarkets.get(marketId) ?? 0) + more
    if (held === 0) inMarkets.delete(marketId)
    else inMarkets.set(marketId, held)
  }

  function release(session: string, orderHash: OrderHash): void {
    const orders = sessions.get(session)
    const order = orders?.get(orderHash)
    if (orders === undefined || order === undefined) return
    orders.delete(orderHash)
    if (orders.size === 0) sessions.delete(session)
    count(order.marketId, -1)
    if (holders.get(orderHash) === session) forget(orderHash)
    refOf(order.marketId)?.tell('ReleaseOrder', { session, orderHash })
  }

  function drop(session: string): HeldOrder[] {
    const orders = [...(sessions.get(session)?.values() ?? [])]
    sessions.delete(session)
    for (const { orderHash, marketId } of orders) {
      count(marketId, -1)
      if (holders.get(orderHash) === session) forget(orderHash)
    }
    return orders
  }

  function forget(orderHash: OrderHash): void {
    holders.delete(orderHash)
    fills.forget(orderHash)
  }

  function releaseEnded(orderHash: OrderHash): void {
    const session = holders.get(orderHash)
    if (session !== undefined) release(session, orderHash)
  }

  /** Cancels until the market has answered. */
  async function cancel(order: HeldOrder): Promise<void> {
    for (;;) {
      const answer = await gateway.cancel(order, { deadlineAtMs: clock.nowMs() + deadlineMs })
      const isOpen =
        isRejection(answer) &&
        (answer.rejected === 'OUTCOME_UNKNOWN' || answer.rejected === 'OVERLOADED')
      if (!isOpen) return
      await pause(CANCEL_AGAIN_MS)
    }
  }

  async function cancelAll(session: string, orders: HeldOrder[]): Promise<void> {
    for (let at = 0; at < orders.length; at += CANCELS_AT_ONCE) {
      await Promise.all(orders.slice(at, at + CANCELS_AT_ONCE).map(cancel))
    }
    for (const thread of threads) thread.tell('DropSession', { session })
  }

  const pause = (ms: number): Promise<void> =>
    new Promise((resolve) => void clock.after(ms, resolve))

  /**
   * Releases an order if its market reports that it has ended. An order unknown to its market is on its way there.
   * Returns the delay before the next check, if any.
   */
  async function recall(session: string, order: OwnOrder): Promise<number | undefined> {
    // If it was placed again, another call checks it.
    const isHeld = () => sessions.get(session)?.get(order.orderHash) === order
    if (!isHeld()) return undefined
    const answer = await gateway.recall(order, { deadlineAtMs: clock.nowMs() + deadlineMs })
    if (answer === undefined || !isHeld()) return undefined
    if (isRejection(answer)) {
      if (answer.rejected === 'OVERLOADED') return CANCEL_AGAIN_MS
      if (answer.rejected !== 'ORDER_CLOSED') return undefined
    } else if (answer.left !== 'nothing') {
      return answer.left === 'pending' ? RECALL_AGAIN_MS : undefined
    }
    release(session, order.orderHash)
    return undefined
  }

  async function recallUntilKnown(session: string, order: OwnOrder): Promise<void> {
    for (;;) {
      const againMs = await recall(session, order)
      if (againMs === undefined) return
      await pause(againMs)
    }
  }

  /** Checks the session orders of a market, some at a time; orders that may return are checked again later. */
  async function recallAll(all: readonly (readonly [string, OwnOrder])[]): Promise<void> {
    for (let at = 0; at < all.length; at += RECALLS_AT_ONCE) {
      await Promise.all(
        all.slice(at, at + RECALLS_AT_ONCE).map(async ([session, order]) => {
          const againMs = await recall(session, order)
          if (againMs !== undefined) {
            clock.after(againMs, () => void recallUntilKnown(session, order))
          }
        }),
      )
    }
  }

  function heldIn(wanted: MarketId): [session: string, order: OwnOrder][] {
    const found: [session: string, order: OwnOrder][] = []
    if (!inMarkets.has(wanted)) return found
    for (const [session, orders] of sessions) {
      for (const order of orders.values())
        if (order.marketId === wanted) found.push([session, order])
    }
    return found
  }

  function releaseAll(marketId: MarketId): void {
    for (const [session, { orderHash }] of heldIn(marketId)) release(session, orderHash)
  }

  async function repeat(thread: number): Promise<void> {
    const ref = threads[thread]
    if (ref === undefined) return
    const turn = (repeats.get(thread) ?? 0) + 1
    repeats.set(thread, turn)
    ref.tell('DropSessions', {})
    let told = 0
    for (const session of [...sessions.keys()]) {
      for (const [orderHash, order] of [...(sessions.get(session) ?? [])]) {
        const isHeld = sessions.get(session)?.has(orderHash) === true
        if (!isHeld || threadOf(order.marketId) !== thread) continue
        if (++told % REPEATED_AT_ONCE !== 0) {
          ref.tell('HoldOrder', { session, order })
          continue
        }
        // Its answer shows that the thread has received the earlier ones.
        const answer = await ref.ask('HoldOrder', { session, order })
        if (repeats.get(thread) !== turn) return
        if (isUnanswered(answer)) {
          if (ref.isOpen) clock.after(CANCEL_AGAIN_MS, () => void repeat(thread))
          return
        }
      }
    }
  }

  return {
    hold(session, { marketId, orderHash, side, trader, outcome }) {
      const orders = sessions.get(session) ?? new Map<OrderHash, OwnOrder>()
      sessions.set(session, orders)
      if (orders.size >= ports.perSessionMax && !orders.has(orderHash)) {
        const detail = `a session may hold ${ports.perSessionMax} orders that are open or not settled`
        return reject('RATE_LIMITED', undefined, detail)
      }
      if (!orders.has(orderHash)) count(marketId, 1)
      orders.set(orderHash, { marketId, orderHash, side, trader, outcome })
      holders.set(orderHash, session)
      return undefined
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
      if (ports.isSettled?.(event.marketId) !== false) {
        for (const orderHash of fills.followed(event, holders)) releaseEnded(orderHash)
      }
      if (event.type === 'OrderClosed') {
        // If the fill fails, the order is open again.
        if (event.reason !== 'filled' || !fills.isUnsettled(event.orderHash)) {
          releaseEnded(event.orderHash)
        }
      } else if (event.type === 'MarketClosed') {
        releaseAll(event.marketId)
      }
    },
    missed({ marketId, isClosed }) {
      if (isClosed) releaseAll(marketId)
      else void recallAll(heldIn(marketId))
    },
    placedAgain(session, orderHash) {
      const order = sessions.get(session)?.get(orderHash)
      if (order !== undefined) void recallUntilKnown(session, order)
    },
    markets: () => inMarkets.keys(),
    repeat,
    async settled() {
      await Promise.all(ending)
    },
  }
}
