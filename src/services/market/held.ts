/**
 * Orders of a market that end with their session, derived from its log. If the front and this thread die together,
 * nothing else remembers the session. A snapshot contains these rows. While a front lives, `order-holds.ts` has the
 * current sessions.
 */

import type { Address, MarketId, OrderHash } from '#domain/ids.ts'
import type { MarketEvent, PendingTrade } from '#domain/market-event.ts'
import type { Side } from '#domain/order.ts'

type HeldTerms = { readonly side: Side; readonly trader: Address }

/** As `order-holds.ts` has them. */
type HeldOrder = HeldTerms & { readonly marketId: MarketId; readonly orderHash: OrderHash }

/** Row of a snapshot. */
export type HeldRow = readonly ['held', orderHash: OrderHash, side: Side, trader: Address]

/** Tells whether any part of an order can still be cancelled. */
type Around = {
  readonly books: readonly { locate(orderHash: OrderHash): number }[]
  readonly pending: { sizeOf(trader: Address, orderHash: OrderHash): number }
}

export class LoggedHolds {
  /** Most markets have none. */
  #orders: Map<OrderHash, HeldTerms> | undefined

  has(orderHash: OrderHash): boolean {
    return this.#orders?.has(orderHash) === true
  }

  /** Applies an event of the market, and the trade that ended with it, after all other state. */
  follow(event: MarketEvent, ended: PendingTrade | undefined, around: Around): void {
    if (event.type === 'OrderRested') {
      if (event.held) this.#hold(event.orderHash, event)
      else if (event.kept) this.#orders?.delete(event.orderHash)
    } else if (event.type === 'OrdersMatched') {
      if (event.held) this.#hold(event.taker.orderHash, event.taker)
    } else if (this.#orders === undefined) return
    else if (event.type === 'MarketClosed') this.#orders = undefined
    else if (event.type === 'OrderClosed') {
      const { orderHash, trader, reason } = event
      // If the fill fails, the order is open again.
      const mayReturn = reason === 'filled' && around.pending.sizeOf(trader, orderHash) > 0
      if (!mayReturn) this.#orders.delete(orderHash)
    } else if (event.type === 'TradeConfirmed' && ended !== undefined) {
      this.#forgetEnded(ended.buyHash, around)
      this.#forgetEnded(ended.sellHash, around)
    }
  }

  all(marketId: MarketId): HeldOrder[] {
    return [...(this.#orders ?? [])].map(([orderHash, terms]) => ({
      marketId,
      orderHash,
      ...terms,
    }))
  }

  /** Rows for a snapshot, without orders that a failed trade did not bring back. */
  rows(around: Around): HeldRow[] {
    for (const orderHash of this.#orders?.keys() ?? []) this.#forgetEnded(orderHash, around)
    return [...(this.#orders ?? [])].map(([orderHash, { side, trader }]) => [
      ...(['held', orderHash, side, trader] as const),
    ])
  }

  restore([, orderHash, side, trader]: HeldRow): void {
    this.#hold(orderHash, { side, trader })
  }

  #hold(orderHash: OrderHash, { side, trader }: HeldTerms): void {
    this.#orders ??= new Map()
    this.#orders.set(orderHash, { side, trader })
  }

  /** Forgets an order if nothing of it rests and nothing can return. */
  #forgetEnded(orderHash: OrderHash, { books, pending }: Around): void {
    const terms = this.#orders?.get(orderHash)
    if (terms === undefined || pending.sizeOf(terms.trader, orderHash) > 0) return
    if (books.every((book) => book.locate(orderHash) < 0)) this.#orders?.delete(orderHash)
  }
}
