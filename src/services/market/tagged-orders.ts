/**
 * Labels and groups of a market's orders, derived from its log. A group's protection limits its fills within a time
 * window, so each group's recent fills are stored too. Snapshots contain labels, groups and fills as rows. An order is
 * remembered while it rests or may return after a failed trade.
 */

import type { Address, OrderHash } from '#domain/ids.ts'
import { PROTECTION_FILLS_MAX, PROTECTION_WINDOW_MS_MAX } from '#domain/limits.ts'
import type { MarketEvent, OrderClosed, OrdersMatched, PendingTrade } from '#domain/market-event.ts'
import type { OrderTags, Protection } from '#domain/order-tags.ts'

type TaggedOrder = {
  readonly trader: Address
  readonly tags: OrderTags
  /**
   * `OrderClosed` event of a filled order with unsettled trades. If the order is cancelled later, a second
   * `OrderClosed` has to repeat these values.
   */
  filled?: OrderClosed
}

/** Time and size of a fill. */
type CountedFill = readonly [atMs: number, size: number]

type Group = {
  readonly trader: Address
  readonly name: string
  protection: Protection | undefined
  readonly orders: Set<OrderHash>
  /** Fills within the protection’s window, the oldest first; at most as many as the protection allows. */
  fills: CountedFill[]
}

/** Row of a snapshot: the tags of an order, or a group with its fills. A group with many fills takes several rows. */
export type TagRow =
  | readonly ['tags', OrderHash, Address, OrderTags, OrderClosed | null]
  | readonly ['group', Address, name: string, Protection | null, readonly CountedFill[]]

/** The parts of the market's state that show whether an order rests or has pending trades. */
type Around = {
  readonly books: readonly { locate(orderHash: OrderHash): number }[]
  readonly pending: { sizeOf(trader: Address, orderHash: OrderHash): number }
}

const FILLS_PER_ROW = 100
/**
 * Number of groups at which the market first removes old groups without orders. The market repeats the removal when the
 * number of remaining groups has doubled.
 */
const SWEPT_MIN = 64

export class TaggedOrders {
  /** Tagged orders of the market; undefined while there are none, as in most markets. */
  #orders: Map<OrderHash, TaggedOrder> | undefined
  readonly #groups = new Map<string, Group>()
  /** Groups whose protection the latest events exceeded. */
  readonly #exceeded = new Set<Group>()
  #sweepAt = SWEPT_MIN

  of(orderHash: OrderHash): OrderTags | undefined {
    return this.#orders?.get(orderHash)?.tags
  }

  /**
   * Returns the `OrderClosed` event of a filled order, if the order has tags and its quantity may return to the book.
   */
  filledOf(orderHash: OrderHash): OrderClosed | undefined {
    return this.#orders?.get(orderHash)?.filled
  }

  /** Returns the trader's orders in a group that rest, or that may return to the book after a failed trade. */
  ordersOf(trader: Address, name: string): readonly OrderHash[] {
    return [...(this.#groups.get(keyOf(trader, name))?.orders ?? [])]
  }

  countOf(trader: Address, name: string): number {
    return this.#groups.get(keyOf(trader, name))?.orders.size ?? 0
  }

  /** Returns and clears the orders of the groups whose protection limit was exceeded since the last call. */
  takeExceeded(): OrderHash[] {
    if (this.#exceeded.size === 0) return []
    const orders = [...this.#exceeded].flatMap((group) => [...group.orders])
    this.#exceeded.clear()
    return orders
  }

  /**
   * Applies an event of the market. `ended` is the trade that the event confirmed or failed, if known. Called after the
   * pending trades (`state.pending`) have applied the same event.
   */
  follow(event: MarketEvent, ended: PendingTrade | undefined, around: Around): void {
    if (event.type === 'OrderRested') {
      if (event.tags !== undefined) this.#tag(event.orderHash, event.trader, event.tags)
      return
    }
    if (event.type === 'OrdersMatched') {
      const { taker, takerTags } = event
      if (takerTags !== undefined) this.#tag(taker.orderHash, taker.trader, takerTags)
      if (this.#groups.size > 0) this.#count(event)
      return
    }
    if (this.#orders === undefined) return
    if (event.type === 'MarketClosed') {
      this.#orders = undefined
      this.#groups.clear()
      this.#exceeded.clear()
    } else if (event.type === 'OrderClosed') {
      const order = this.#orders.get(event.orderHash)
      if (order === undefined) return
      const mayReturn =
        event.reason === 'filled' && around.pending.sizeOf(event.trader, event.orderHash) > 0
      if (mayReturn) order.filled = event
      else this.#forget(event.orderHash)
    } else if (event.type === 'TradeConfirmed' && ended !== undefined) {
      this.forgetEnded(ended.buyHash, around)
      this.forgetEnded(ended.sellHash, around)
    }
  }

  /** Returns rows for a snapshot, without filled orders whose quantity can no longer return to the book. */
  rows(around: Around, nowMs: number): TagRow[] {
    for (const orderHash of this.#orders?.keys() ?? []) this.forgetEnded(orderHash, around)
    this.#sweep(nowMs)
    const rows: TagRow[] = []
    for (const { trader, name, protection, ...group } of this.#groups.values()) {
      const fills = group.fills.filter(([atMs]) => atMs > nowMs - PROTECTION_WINDOW_MS_MAX)
      for (let from = 0; from === 0 || from < fills.length; from += FILLS_PER_ROW) {
        const some = fills.slice(from, from + FILLS_PER_ROW)
        rows.push(['group', trader, name, protection ?? null, some])
      }
    }
    for (const [orderHash, { trader, tags, filled }] of this.#orders ?? []) {
      rows.push(['tags', orderHash, trader, tags, filled ?? null])
    }
    return rows
  }

  restore(row: TagRow): void {
    if (row[0] === 'group') {
      const [, trader, name, protection, fills] = row
      const group = this.#group(trader, name)
      group.protection = protection ?? undefined
      group.fills.push(...fills)
      return
    }
    const [, orderHash, trader, tags, filled] = row
    this.#orders ??= new Map()
    this.#orders.set(orderHash, { trader, tags, ...(filled === null ? {} : { filled }) })
    if (tags.group !== undefined) this.#group(trader, tags.group).orders.add(orderHash)
  }

  #tag(orderHash: OrderHash, trader: Address, tags: OrderTags): void {
    this.#orders ??= new Map()
    const isNew = !this.#orders.has(orderHash)
    // If a failed trade returned this order to the book, the new entry replaces the earlier one and its `filled` event.
    this.#orders.set(orderHash, { trader, tags })
    if (tags.group === undefined) return
    const group = this.#group(trader, tags.group)
    group.orders.add(orderHash)
    if (isNew) group.protection = tags.protection
  }

  #group(trader: Address, name: string): Group {
    const key = keyOf(trader, name)
    let group = this.#groups.get(key)
    if (group === undefined) {
      group = { trader, name, protection: undefined, orders: new Set(), fills: [] }
      this.#groups.set(key, group)
    }
    return group
  }

  #count({ atMs, taker, takerTags, fills }: OrdersMatched): void {
    if (this.#groups.size >= this.#sweepAt) this.#sweep(atMs)
    const takers = takerTags?.group ?? this.of(taker.orderHash)?.group
    for (const { maker, makerTags, size } of fills) {
      if (makerTags?.group !== undefined) this.#fill(maker, makerTags.group, atMs, size)
      if (takers !== undefined) this.#fill(taker.trader, takers, atMs, size)
    }
  }

  #fill(trader: Address, name: string, atMs: number, size: number): void {
    const group = this.#group(trader, name)
    const { protection } = group
    if (protection === undefined) return
    const { windowMs, fillsMax = PROTECTION_FILLS_MAX, sharesMax } = protection
    const fills = group.fills.filter(([filledAtMs]) => filledAtMs > atMs - windowMs)
    fills.push([atMs, size])
    const shares = fills.reduce((sum, [, each]) => sum + each, 0)
    const isOver = fills.length > fillsMax || shares > (sharesMax ?? Number.POSITIVE_INFINITY)
    // The market cancels the orders of the group in this step, so the fills are counted from zero again.
    group.fills = isOver ? [] : fills
    if (isOver) this.#exceeded.add(group)
  }

  #forget(orderHash: OrderHash): void {
    const order = this.#orders?.get(orderHash)
    if (order === undefined) return
    this.#orders?.delete(orderHash)
    const name = order.tags.group
    if (name === undefined) return
    const group = this.#groups.get(keyOf(order.trader, name))
    group?.orders.delete(orderHash)
    if (group?.orders.size === 0 && group.fills.length === 0 && !this.#exceeded.has(group)) {
      this.#groups.delete(keyOf(order.trader, name))
    }
  }

  /**
   * Forgets each group that has no orders and whose last fill is older than the longest protection window. Such fills
   * no longer count, so this function may be called at any time.
   */
  #sweep(nowMs: number): void {
    for (const [key, { orders, fills }] of this.#groups) {
      const lastMs = fills.at(-1)?.[0] ?? 0
      const isOld = lastMs <= nowMs - PROTECTION_WINDOW_MS_MAX
      if (orders.size === 0 && isOld) this.#groups.delete(key)
    }
    this.#sweepAt = Math.max(SWEPT_MIN, 2 * this.#groups.size)
  }

  /** Forgets an order if no part of it is in a book, and no part can return to the book. */
  forgetEnded(orderHash: OrderHash, { books, pending }: Around): void {
    const order = this.#orders?.get(orderHash)
    if (order === undefined || pending.sizeOf(order.trader, orderHash) > 0) return
    if (books.every((book) => book.locate(orderHash) < 0)) this.#forget(orderHash)
  }
}

function keyOf(trader: Address, name: string): string {
  return `${trader} ${name}`
}
