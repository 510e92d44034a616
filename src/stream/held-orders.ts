/**
 * Cancel on disconnect: the orders that go when their session does. Each names its session when it is
 * placed, so that its market thread knows of it before it rests, and cancels it should this thread
 * die; while this thread lives, it cancels them itself, until the markets have answered.
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
   * To be called right before the order is placed in the name of the session; a rejection forbids to
   * place it.
   */
  hold(session: string, order: VerifiedOrder): Rejection | undefined
  /** It was not placed after all. */
  release(session: string, orderHash: OrderHash): void
  /** Cancels everything that the session holds. */
  end(session: string): void
  /** The session keeps its orders from now on. */
  forget(session: string): void
  /** An order that has ended needs no session to hold it. */
  followed(event: MarketEvent): void
  /** Events of the market were missed, and it is as it was loaded: what has ended meanwhile is let go of. */
  missed(market: { readonly marketId: MarketId; readonly isClosed: boolean }): void
  /** It was placed before: if it has ended since, it is let go of. */
  placedAgain(session: string, orderHash: OrderHash): void
  /** The markets of the orders that are held, each once. */
  markets(): Iterable<MarketId>
  /** A market thread has come back and knows nothing of what was held, or has lost what it was told. */
  repeat(thread: number): Promise<void>
  /** Resolves when nothing is left to be cancelled. */
  settled(): Promise<void>
}

/** Cancels of one session that are under way at once. */
const CANCELS_AT_ONCE = 32
const CANCEL_AGAIN_MS = 250
/** When an order that is filled by what is not settled is asked after again. */
const RECALL_AGAIN_MS = 5_000
/** Orders of one market that are asked after at once. */
const RECALLS_AT_ONCE = 32
/** Orders that a market thread is told again at once. */
const REPEATED_AT_ONCE = 1_000

/** The same, with what its market is asked after it with. */
type OwnOrder = HeldOrder & Pick<VerifiedOrder, 'outcome'>

export function makeHeldOrders(ports: {
  readonly threads: readonly Ref<HoldsProtocol>[]
  readonly threadOf: (marketId: MarketId) => number
  readonly gateway: Pick<MarketGateway, 'cancel' | 'recall'>
  readonly clock: Clock
  /** Whether trades of the market are settled; else none of them ever ends. */
  readonly isSettled?: (marketId: MarketId) => boolean
  /** Orders that one session may hold: those that are open, and those filled by what is not settled. */
  readonly perSessionMax: number
  readonly deadlineMs: number
}): HeldOrders {
  const { threads, threadOf, gateway, clock, deadlineMs } = ports
  const sessions = new Map<string, Map<OrderHash, OwnOrder>>()
  const holders = new Map<OrderHash, string>()
  /** How many are held in each market; none where it is left out. */
  const inMarkets = new Map<MarketId, number>()
  const fills = makeUnsettledFills()
  const ending = new Set<Promise<void>>()
  /** By thread: how often its orders were told again. A turn that is overtaken ends. */
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

  /** Until the market has said what became of it. */
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
   * Lets go of an order that has ended, as its market says. One that its market does not know is on its way
   * there. Answers how soon it is to be asked after again, if it is.
   */
  async function recall(session: string, order: OwnOrder): Promise<number | undefined> {
    // Placed again since, it is another's to ask after.
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

  /** Asks after the orders that are held in a market, some at a time; those that may come back are asked after later. */
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
        // Its answer says that the thread has taken those before.
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
