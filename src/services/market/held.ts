/**
 * Orders of a market that are cancelled when their session (an authenticated stream) ends. The list is derived from the
 * market's log, so it survives a restart of the thread. A snapshot contains one row per session order. `SessionIndex`
 * finds the orders of a session in all markets of the thread.
 */

import type { Address, MarketId, OrderHash } from '#domain/ids.ts'
import type { MarketEvent, PendingTrade } from '#domain/market-event.ts'
import type { Side } from '#domain/order.ts'
import { remember } from '#domain/remember.ts'

export type HeldOrder = {
  readonly marketId: MarketId
  readonly orderHash: OrderHash
  readonly side: Side
  readonly trader: Address
}

/** Row of a snapshot: a session order, or a former session order whose trades have all settled. */
export type HeldRow = RowOf<'held'> | RowOf<'settled'>

type RowOf<Kind> = readonly [
  kind: Kind,
  orderHash: OrderHash,
  side: Side,
  trader: Address,
  session: string,
]

/** The parts of the market's state that show whether an order rests or has pending trades. */
type Around = {
  readonly books: readonly { locate(orderHash: OrderHash): number }[]
  readonly pending: { sizeOf(trader: Address, orderHash: OrderHash): number }
}

/** The orders of each session in the markets of one thread. */
export class SessionIndex {
  readonly #sessions = new Map<string, Map<OrderHash, HeldOrder>>()

  sessions(): string[] {
    return [...this.#sessions.keys()]
  }

  ordersOf(session: string): HeldOrder[] {
    return [...(this.#sessions.get(session)?.values() ?? [])]
  }

  sizeOf(session: string): number {
    return this.#sessions.get(session)?.size ?? 0
  }

  has(session: string, orderHash: OrderHash): boolean {
    return this.#sessions.get(session)?.has(orderHash) === true
  }

  add(session: string, order: HeldOrder): void {
    const orders = this.#sessions.get(session) ?? new Map<OrderHash, HeldOrder>()
    this.#sessions.set(session, orders)
    orders.set(order.orderHash, order)
  }

  delete(session: string, orderHash: OrderHash): void {
    const orders = this.#sessions.get(session)
    orders?.delete(orderHash)
    if (orders?.size === 0) this.#sessions.delete(session)
  }
}

/**
 * Maximum number of settled orders that a market remembers, because a reorg may revert their trades. The oldest are
 * dropped.
 */
const SETTLED_MAX = 1_000

type Held = { readonly session: string; readonly side: Side; readonly trader: Address }

export class LoggedHolds {
  readonly #marketId: MarketId
  readonly #index: SessionIndex
  /** Session orders of the market; undefined while there are none, as in most markets. */
  #orders: Map<OrderHash, Held> | undefined
  /** Former session orders whose trades have all settled, the newest last. */
  #settled: Map<OrderHash, Held> | undefined

  constructor(marketId: MarketId, index = new SessionIndex()) {
    this.#marketId = marketId
    this.#index = index
  }

  sessionOf(orderHash: OrderHash): string | undefined {
    return this.#orders?.get(orderHash)?.session
  }

  /**
   * Returns true if the session already has `max` orders in the markets of this thread, and this order is not
   * one of them.
   */
  isFull(session: string, orderHash: OrderHash, max: number): boolean {
    return this.#index.sizeOf(session) >= max && !this.#index.has(session, orderHash)
  }

  /**
   * Applies an event of the market. `ended` is the trade that the event confirmed or failed, if known. Called after the
   * pending trades (`state.pending`) have applied the same event.
   */
  follow(event: MarketEvent, ended: PendingTrade | undefined, around: Around): void {
    if (event.type === 'OrderRested') {
      const { orderHash, side, trader, held } = event
      if (held !== undefined) this.#hold(orderHash, { side, trader, session: held })
      else if (event.kept) this.#release(event.orderHash)
    } else if (event.type === 'OrdersMatched') {
      const { orderHash, side, trader } = event.taker
      if (event.held !== undefined) this.#hold(orderHash, { side, trader, session: event.held })
    } else if (event.type === 'TradeReverted' && event.trade !== undefined) {
      this.#holdAgain(event.trade.buyHash)
      this.#holdAgain(event.trade.sellHash)
    } else if (event.type === 'MarketClosed') this.drop()
    else if (this.#orders === undefined) return
    else if (event.type === 'OrderClosed') {
      const { orderHash, trader, reason } = event
      // The order stays in the session while a pending fill may fail and return quantity to the book.
      const mayReturn = reason === 'filled' && around.pending.sizeOf(trader, orderHash) > 0
      if (!mayReturn) this.#release(orderHash)
    } else if (event.type === 'TradeConfirmed' && ended !== undefined) {
      this.#settle(ended.buyHash, around)
      this.#settle(ended.sellHash, around)
    }
  }

  /**
   * Removes an order from its session if nothing of it rests and all of its trades have settled. Remembers
   * the order, because a reorg may revert a trade.
   */
  #settle(orderHash: OrderHash, around: Around): void {
    const held = this.#orders?.get(orderHash)
    this.forgetEnded(orderHash, around)
    if (held === undefined || this.#orders?.has(orderHash) === true) return
    this.#settled ??= new Map()
    remember(this.#settled, orderHash, held, SETTLED_MAX)
  }

  /**
   * Adds an order to its session again, because a reorg removed one of its trades and its quantity may return to the
   * book.
   */
  #holdAgain(orderHash: OrderHash): void {
    const settled = this.#settled?.get(orderHash)
    if (settled === undefined) return
    this.#settled?.delete(orderHash)
    this.#hold(orderHash, settled)
  }

  /** Returns rows for a snapshot, without filled orders whose quantity can no longer return to the book. */
  rows(around: Around): HeldRow[] {
    for (const orderHash of this.#orders?.keys() ?? []) this.forgetEnded(orderHash, around)
    return [...rowsOf('held', this.#orders), ...rowsOf('settled', this.#settled)]
  }

  restore([kind, orderHash, side, trader, session]: HeldRow): void {
    if (kind === 'held') this.#hold(orderHash, { side, trader, session })
    else {
      this.#settled ??= new Map()
      this.#settled.set(orderHash, { side, trader, session })
    }
  }

  /** Forgets all orders. Called when the market has closed or is unloaded. */
  drop(): void {
    for (const [orderHash, { session }] of this.#orders ?? [])
      this.#index.delete(session, orderHash)
    this.#orders = undefined
    this.#settled = undefined
  }

  #hold(orderHash: OrderHash, { side, trader, session }: Held): void {
    this.#release(orderHash)
    this.#orders ??= new Map()
    this.#orders.set(orderHash, { session, side, trader })
    this.#index.add(session, { marketId: this.#marketId, orderHash, side, trader })
  }

  #release(orderHash: OrderHash): void {
    const session = this.sessionOf(orderHash)
    if (session === undefined) return
    this.#orders?.delete(orderHash)
    this.#index.delete(session, orderHash)
  }

  /** Forgets an order if no part of it is in a book, and no part can return to the book. */
  forgetEnded(orderHash: OrderHash, { books, pending }: Around): void {
    const held = this.#orders?.get(orderHash)
    if (held === undefined || pending.sizeOf(held.trader, orderHash) > 0) return
    if (books.every((book) => book.locate(orderHash) < 0)) this.#release(orderHash)
  }
}

function rowsOf<const Kind extends string>(
  kind: Kind,
  orders: ReadonlyMap<OrderHash, Held> | undefined,
): RowOf<Kind>[] {
  return [...(orders ?? [])].map(([orderHash, { side, trader, session }]) => [
    ...([kind, orderHash, side, trader, session] as const),
  ])
}
