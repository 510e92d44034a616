/**
 * The orders of a market that end with the session that placed them, as its log has it: so that they also end
 * when the front and this thread died together and nobody is left who remembers the session. It follows from the
 * events alone; a snapshot holds its rows. While a front lives it is the front that says what is held, and
 * `order-holds.ts` that knows it.
 */

import type { Address, MarketId, OrderHash } from '#domain/ids.ts'
import type { MarketEvent, PendingTrade } from '#domain/market-event.ts'
import type { Side } from '#domain/order.ts'

type HeldTerms = { readonly side: Side; readonly trader: Address }

/** As `order-holds.ts` has them. */
type HeldOrder = HeldTerms & { readonly marketId: MarketId; readonly orderHash: OrderHash }

/** What a snapshot has of it. */
export type HeldRow = readonly ['held', orderHash: OrderHash, side: Side, trader: Address]

/** What says whether there is still something of an order that can be cancelled. */
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

  /** Follows an event of the market, and the trade that ended with it, after the others have. */
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
      // What filled it may fail, and then it is open again.
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

  /** For a snapshot, without what a failed trade did not bring back. */
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

  /** Forgets an order of which nothing rests and nothing can come back. */
  #forgetEnded(orderHash: OrderHash, { books, pending }: Around): void {
    const terms = this.#orders?.get(orderHash)
    if (terms === undefined || pending.sizeOf(terms.trader, orderHash) > 0) return
    if (books.every((book) => book.locate(orderHash) < 0)) this.#orders?.delete(orderHash)
  }
}
