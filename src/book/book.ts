/**
 * The book of one outcome of one market: resting buys and sells in price-time priority, with exact integers only. The
 * book has no clock, no randomness and no I/O. The book does not match orders; `match.ts` does. No operation is linear
 * in the number of orders, except listing them all.
 *
 * An order is one record in a pool. Four structures link the record: the queue of its price level, the list of its
 * trader, the index by hash and the expiry wheel. A slot is the number of a record. A slot from `locate` or `bestOrder`
 * is valid until the book next changes. The file is long because every change of an order changes all four structures,
 * and they should be read together.
 */

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import type { Address, OrderHash } from '#domain/ids.ts'
import { isPrice, isShares, type Price, type Shares } from '#domain/money.ts'
import { BUY, SELL, type Side } from '#domain/order.ts'
import { ExpiryWheel } from './expiry-wheel.ts'
import { readKey, sameKey, tagOfText, tagOfWords, tagPlaces, writeKey } from './key-words.ts'
import * as layout from './layout.ts'
import { addToLevel, levelAt, levelTotal, takeFromLevel } from './level.ts'
import type { OrderList } from './order-list.ts'
import {
  type OrderTerms,
  priceOf,
  type RestingOrder,
  readRecord,
  recordAt,
  sideOf,
} from './order-record.ts'
import { PriceLevels } from './price-levels.ts'
import { RecordPool } from './record-pool.ts'
import { BookSnapshot, readChunk } from './snapshot.ts'
import { TagIndex } from './tag-index.ts'

const {
  NIL,
  PAGE_MASK,
  HASH_WORDS,
  ADDRESS_WORDS,
  RECORD_SHIFT,
  RECORD_WORDS,
  HASH,
  TRADER,
  TAG,
  PRICE_SIDE,
  PRICE_SIDE_MASK,
  SIZE,
  REMAINING,
  EXPIRES,
  PLACED,
  PREV,
  NEXT,
  TRADER_PREV,
  TRADER_NEXT,
  LEVEL,
  MATCHES,
  TRADER_SLOT,
  ARRIVAL,
  ARRIVAL_COPY,
  STATE,
  LEVEL_SHIFT,
  LEVEL_KEY,
  LEVEL_KEY_MASK,
  HEAD,
  TAIL,
  COUNT,
  TRADER_SHIFT,
  TRADER_HEAD,
  TRADER_TAIL,
  TRADER_COUNT,
  TRADER_TAG,
} = layout

type BookOptions = {
  /** Maximum number of resting orders. */
  readonly ordersMax: number
  /**
   * Secret seed, any number. It selects which digits of hashes and addresses the indices use as keys. So traders cannot
   * choose hashes that collide.
   */
  readonly seed?: number
  /** True if every order is added by `restAs`. Snapshots then include each order's arrival number. */
  readonly hasArrivals?: boolean
  /** Observer of the traders who have orders in this book. */
  readonly traders?: TraderWatch
}

/** Observes which traders have orders in a book, so that callers need not search all books. */
export type TraderWatch = {
  /** Called when the first order of a trader is added to the book. */
  entered(trader: Address): void
  /** Called when the last order of a trader has left the book. */
  left(trader: Address): void
  /** Called when the book drops all its orders. `traders` may include traders for whom `left` was already called. */
  cleared(traders: readonly Address[]): void
}

type Level = {
  readonly price: Price
  /** Total resting quantity at the price; it may exceed 2^53. */
  readonly size: bigint
  readonly orders: number
}

/**
 * Number of slots whose order hashes are kept as text. These are the lowest slots, which a book uses first and reuses.
 * With the kept text, a fill need not create the text, and a lookup need not parse the hash. Higher slots keep no text,
 * because up to a million more objects would burden the garbage collector.
 */
const TEXTS_MAX = 65_536

/**
 * Pools that all books without orders share. Most markets have no orders, and a book with separate pools needs a
 * hundred times as much memory. No order is ever added to these pools.
 */
const NO_ORDERS = new RecordPool(RECORD_SHIFT, 0, STATE)
const NO_LEVELS = new RecordPool(LEVEL_SHIFT, 0)
const NO_TRADERS = new RecordPool(TRADER_SHIFT, 0)
const NO_TAGS = new TagIndex()
const NO_PRICES = new PriceLevels(NO_LEVELS, true)
const NO_WHEEL = new ExpiryWheel(NO_ORDERS, 0)
const NO_TEXTS: never[] = []

/** Buffer for the key that is being read. */
const key = new Int32Array(HASH_WORDS)

export class Book {
  readonly #ordersMax: number
  readonly #hashPlaces: Uint8Array
  readonly #addressPlaces: Uint8Array
  readonly #watch: TraderWatch | undefined
  readonly #hasArrivals: boolean
  /** Latest placement time of all orders that have rested in this book since it was last emptied by `#empty`. */
  #newestMs = 0
  #orders!: RecordPool
  #levels!: RecordPool
  #traders!: RecordPool
  /** Text of each trader's address, by the trader's slot: created once, used in every report. */
  #addresses!: Address[]
  #texts!: (OrderHash | undefined)[]
  #byHash!: TagIndex
  #byTrader!: TagIndex
  #bids!: PriceLevels
  #asks!: PriceLevels
  #wheel!: ExpiryWheel
  #snapshot: BookSnapshot | undefined

  constructor(options: BookOptions) {
    assert.ok(Number.isSafeInteger(options.ordersMax) && options.ordersMax >= 0)
    this.#ordersMax = options.ordersMax
    const { seed = 0 } = options
    this.#hashPlaces = placesOf(seed).hash
    this.#addressPlaces = placesOf(seed).address
    this.#watch = options.traders
    this.#hasArrivals = options.hasArrivals === true
    this.#empty()
  }

  /** Number of resting orders. */
  get count(): number {
    return this.#orders.live
  }

  get isFull(): boolean {
    return this.#orders.live >= this.#ordersMax
  }

  /** Highest price of a resting buy; 0 if the side is empty. */
  get bestBid(): number {
    return this.#bids.best
  }

  /** Lowest price of a resting sell; 0 if the side is empty. */
  get bestAsk(): number {
    return this.#asks.best
  }

  /**
   * Returns the earliest second at which an order may expire; undefined if the book is empty. No order expires before
   * it.
   */
  get nextExpirySec(): number | undefined {
    return this.#wheel.nextSec
  }

  /**
   * Adds an order behind all other orders at its price. `remaining` is the quantity that is left after `matches`
   * matches. Returns false if the book is full. The order must not cross the book, so the caller matches the order
   * first.
   */
  rest(order: OrderTerms, remaining: Shares, matches: number): boolean {
    checkTerms(order, remaining, matches)
    const { side, price } = order
    if (this.crosses(side, price)) assert.fail('the order crosses the book: match it first')
    if (this.isFull) return false
    if (this.#orders === NO_ORDERS) this.#open(0)
    const orders = this.#orders
    const { orderHash, trader, placedAtMs } = order
    const tag = tagOfText(orderHash, this.#hashPlaces, HASH_WORDS)
    const traderTag = tagOfText(trader, this.#addressPlaces, ADDRESS_WORDS)

    // Search the three indices (hashes, traders, prices) before writing the order's record. Then the memory accesses of
    // the three searches can overlap.
    const slot = orders.allocate()
    if (this.#byHash.addNew(tag, slot) !== NIL) this.#addBeside(orderHash, tag, slot)
    const prices = this.#prices(side)
    const level = prices.levelOf(price, price * 2 + side)
    const owner = this.#openTrader(trader, traderTag)

    const words = orders.page(slot)
    const offset = recordAt(slot)
    words[offset + TAG] = tag
    if (slot < TEXTS_MAX) this.#texts[slot] = orderHash
    else {
      readKey(orderHash, key, HASH_WORDS)
      for (let word = 0; word < HASH_WORDS; word++) words[offset + HASH + word] = key[word]!
    }
    words[offset + PRICE_SIDE] = price * 2 + side
    words[offset + MATCHES] = matches
    const doubles = orders.doublePage(slot)
    const half = offset >> 1
    doubles[half + SIZE] = order.size
    doubles[half + REMAINING] = remaining
    doubles[half + EXPIRES] = order.expiresAtSec
    doubles[half + PLACED] = placedAtMs

    // Appends the order to its level's queue.
    const levels = this.#levels
    const levelPage = levels.page(level)
    const inLevel = levelAt(level)
    const last = levelPage[inLevel + TAIL]!
    words[offset + LEVEL] = level
    words[offset + PREV] = last
    words[offset + NEXT] = NIL
    levelPage[inLevel + TAIL] = slot
    levelPage[inLevel + COUNT]!++
    addToLevel(levels, level, remaining)
    if (last === NIL) {
      levelPage[inLevel + HEAD] = slot
      prices.filled(price, level)
    } else orders.writable(last)[recordAt(last) + NEXT] = slot

    // Inserts the order into its trader's list by placement time, usually at the end. Only an order that re-enters the
    // book after a failed trade can be older than orders in the list.
    const traderPage = this.#traders.page(owner)
    const inTrader = traderAt(owner)
    let earlier = traderPage[inTrader + TRADER_TAIL]!
    let later = NIL
    if (placedAtMs >= this.#newestMs) this.#newestMs = placedAtMs
    else {
      while (earlier !== NIL && this.placedAtMsOf(earlier) > placedAtMs) {
        later = earlier
        earlier = orders.page(earlier)[recordAt(earlier) + TRADER_PREV]!
      }
    }
    words[offset + TRADER_SLOT] = owner
    words[offset + TRADER_PREV] = earlier
    words[offset + TRADER_NEXT] = later
    traderPage[inTrader + TRADER_COUNT]!++
    if (earlier === NIL) traderPage[inTrader + TRADER_HEAD] = slot
    else orders.writable(earlier)[recordAt(earlier) + TRADER_NEXT] = slot
    if (later === NIL) traderPage[inTrader + TRADER_TAIL] = slot
    else orders.writable(later)[recordAt(later) + TRADER_PREV] = slot

    this.#wheel.add(slot)
    return true
  }

  /**
   * Adds an order as `rest` does, and stores the order's arrival number. Both books of a market share one sequence of
   * arrival numbers, so `complementary.ts` can compare orders of the two books.
   */
  restAs(arrival: number, order: OrderTerms, remaining: Shares, matches: number): boolean {
    assert.ok(this.#hasArrivals)
    if (!this.rest(order, remaining, matches)) return false
    const slot = this.locate(order.orderHash)
    this.#orders.doublePage(slot)[(recordAt(slot) >> 1) + ARRIVAL] = arrival
    return true
  }

  /** Removes the order and returns it; undefined if the order is not in the book. */
  cancel(orderHash: OrderHash): RestingOrder | undefined {
    const slot = this.locate(orderHash)
    if (slot === NIL) return undefined
    const order = this.read(slot, orderHash)
    this.remove(slot)
    return order
  }

  find(orderHash: OrderHash): RestingOrder | undefined {
    const slot = this.locate(orderHash)
    return slot === NIL ? undefined : this.read(slot, orderHash)
  }

  /**
   * Gives quantity back to a resting order, which keeps its place in the queue. Returns the order's new remaining
   * quantity, or undefined if the order is not in the book.
   */
  grow(orderHash: OrderHash, quantity: Shares): number | undefined {
    const slot = this.locate(orderHash)
    if (slot === NIL) return undefined
    const orders = this.#orders
    const words = orders.writable(slot)
    const offset = recordAt(slot)
    const doubles = orders.doublePage(slot)
    const at = (offset >> 1) + REMAINING
    const missing = doubles[(offset >> 1) + SIZE]! - doubles[at]!
    if (!isShares(quantity) || quantity > missing) {
      assert.fail(
        `the returned quantity must be from 1 to ${missing}, the filled quantity of the order, ` +
          `not ${quantity}`,
      )
    }
    doubles[at] = doubles[at]! + quantity
    addToLevel(this.#levels, words[offset + LEVEL]!, quantity)
    return doubles[at]!
  }

  /**
   * Removes expired orders and adds them to `into`. Stops after `stepsMax` steps of the expiry wheel. Each step removes
   * or moves at most one order. Returns true if no expired order is left.
   */
  expire(nowSec: number, stepsMax: number, into: OrderList): boolean {
    if (this.#orders === NO_ORDERS) return true
    for (let steps = 0; steps < stepsMax; steps++) {
      const slot = this.#wheel.step(nowSec)
      if (slot === undefined) continue
      if (slot === NIL) return true
      this.report(slot, 0, into)
      this.remove(slot)
    }
    const next = this.#wheel.nextSec
    return next === undefined || next > nowSec
  }

  /** Returns whether an order at this price would match an order of the other side. */
  crosses(side: Side, price: number): boolean {
    if (side === BUY) return this.#asks.best !== 0 && this.#asks.best <= price
    return this.#bids.best >= price
  }

  /** Returns the exact total quantity at a price. */
  levelSize(side: Side, price: Price): bigint {
    const level = this.#prices(side).levelAt(price)
    return level === NIL ? 0n : levelTotal(this.#levels, level)
  }

  /** Returns the best levels of a side, best first. */
  depth(side: Side, levelsMax = Number.POSITIVE_INFINITY): Level[] {
    const prices = this.#prices(side)
    const levels: Level[] = []
    for (let price = prices.best; price !== 0; price = prices.next(price)) {
      if (levels.length >= levelsMax) break
      const level = prices.levelAt(price)
      const orders = this.#levels.page(level)[levelAt(level) + COUNT]!
      levels.push({ price: price as Price, size: levelTotal(this.#levels, level), orders })
    }
    return levels
  }

  /** Returns open orders of a trader, in placement order. */
  ordersOf(trader: Address, ordersMax = Number.POSITIVE_INFINITY): RestingOrder[] {
    const found: RestingOrder[] = []
    let slot = this.oldestOf(trader)
    while (slot !== NIL && found.length < ordersMax) {
      found.push(this.read(slot))
      slot = this.youngerOf(slot)
    }
    return found
  }

  /** Returns the slot of the trader's oldest resting order; NIL if there is none. */
  oldestOf(trader: Address): number {
    const owner = this.traderSlot(trader)
    return owner === NIL ? NIL : this.#traders.page(owner)[traderAt(owner) + TRADER_HEAD]!
  }

  /** Returns the slot of the same trader's next younger order; NIL if there is none. */
  youngerOf(slot: number): number {
    return this.#orders.page(slot)[recordAt(slot) + TRADER_NEXT]!
  }

  /**
   * Returns sums about the trader whose order is in this slot: the number of their orders, and the placement time of
   * their newest order.
   */
  sumsOfTrader(slot: number): { readonly count: number; readonly newestMs: number } {
    const owner = this.traderSlotOf(slot)
    const page = this.#traders.page(owner)
    const at = traderAt(owner)
    return { count: page[at + TRADER_COUNT]!, newestMs: this.placedAtMsOf(page[at + TRADER_TAIL]!) }
  }

  /** Returns the number of the trader's resting orders. */
  countOf(trader: Address): number {
    const owner = this.traderSlot(trader)
    if (owner === NIL) return 0
    return this.#traders.page(owner)[traderAt(owner) + TRADER_COUNT]!
  }

  /** Iterates the orders of a side in price-time priority. The book must not change meanwhile. */
  *orders(side: Side): Generator<RestingOrder, void, undefined> {
    for (const slot of this.#slots(side)) yield this.read(slot)
  }

  /** Drops all orders. A snapshot in progress is not affected. */
  clear(): void {
    if (this.#traders.live > 0) this.#watch?.cleared(this.#addresses)
    this.#empty()
    this.#snapshot = undefined
  }

  /** Frees the memory of the book if it has no orders and no snapshot is in progress. */
  shrink(): void {
    if (this.count === 0 && this.#snapshot?.done !== false) this.#empty()
  }

  /** Begins a snapshot of the book at this instant. Fails if an earlier snapshot of the book is not done. */
  beginSnapshot(): BookSnapshot {
    if (this.#snapshot !== undefined && !this.#snapshot.done) {
      assert.fail('a new snapshot of this book cannot begin before the current snapshot is done')
    }
    // A snapshot freezes its pool. An empty book gets a new pool for this, because all empty books share `NO_ORDERS`.
    const orders =
      this.#orders === NO_ORDERS ? new RecordPool(RECORD_SHIFT, 0, STATE) : this.#orders
    this.#snapshot = new BookSnapshot(orders, this.#wheel.nowSec, this.#completer())
    return this.#snapshot
  }

  /** Restores a book from all chunks of a snapshot, in any order. */
  static restore(chunks: Iterable<Uint8Array>, options: BookOptions): Book {
    const book = new Book(options)
    book.#restore(chunks)
    return book
  }

  /**
   * Returns a SHA-256 over every order in price-time priority, bids then asks. Books with the same orders in the same
   * queues have the same hash, whatever their memory layout.
   */
  stateHash(): string {
    const complete = this.#completer()
    const sum = createHash('sha256')
    const image = new Int32Array(1024 * RECORD_WORDS)
    let filled = 0
    for (const side of [BUY, SELL] as const) {
      for (const slot of this.#slots(side)) {
        const page = this.#orders.page(slot)
        const offset = recordAt(slot)
        for (let word = 0; word < RECORD_WORDS; word++) image[filled + word] = page[offset + word]!
        complete(image, filled, slot)
        image[filled + PRICE_SIDE]! &= PRICE_SIDE_MASK
        // Clear the slot and the links: they depend on the memory layout, not on the order.
        image[filled + STATE] = NIL
        image.fill(NIL, filled + PREV, filled + TRADER)
        filled += RECORD_WORDS
        if (filled < image.length) continue
        sum.update(image)
        filled = 0
      }
    }
    return sum.update(image.subarray(0, filled)).digest('hex')
  }

  /** Returns the slot of a resting order; NIL if the order is not in the book. */
  locate(orderHash: OrderHash): number {
    return this.#slotOf(orderHash, tagOfText(orderHash, this.#hashPlaces, HASH_WORDS))
  }

  /** Returns the order in a slot. If the caller passes the order's hash, the book need not create the hash text. */
  read(slot: number, orderHash?: OrderHash): RestingOrder {
    const orders = this.#orders
    const words = orders.page(slot)
    const offset = recordAt(slot)
    const trader = this.#addresses[words[offset + TRADER_SLOT]!]!
    const hash = orderHash ?? this.#textOf(slot) ?? writeKey(words, offset + HASH, HASH_WORDS)
    return readRecord(words, orders.doublePage(slot), offset, trader, hash as OrderHash)
  }

  /** Copies the order into a list, with the quantity that a match has filled. */
  report(slot: number, taken: number, into: OrderList): void {
    const trader = this.#addresses[this.traderSlotOf(slot)]!
    into.push(this.#orders, slot, taken, trader, this.#textOf(slot))
  }

  /** Returns the slot of the order that matches first on a side; NIL if the side is empty. */
  bestOrder(side: Side): number {
    const level = this.#prices(side).bestLevel
    if (level === NIL) return NIL
    return this.#levels.page(level)[levelAt(level) + HEAD]!
  }

  /**
   * Iterates the makers that an order of this side and limit price could match, in the order of matching. The book must
   * not change meanwhile.
   */
  *makers(side: Side, limit: number): Generator<number, void, undefined> {
    const prices = this.#prices(side === BUY ? SELL : BUY)
    for (let price = prices.best; price !== 0; price = prices.next(price)) {
      if (side === BUY ? price > limit : price < limit) return
      yield* this.#line(prices.levelAt(price))
    }
  }

  remainingOf(slot: number): number {
    return this.#orders.doublePage(slot)[(recordAt(slot) >> 1) + REMAINING]!
  }

  placedAtMsOf(slot: number): number {
    return this.#orders.doublePage(slot)[(recordAt(slot) >> 1) + PLACED]!
  }

  priceOf(slot: number): Price {
    return priceOf(this.#orders.page(slot)[recordAt(slot) + PRICE_SIDE]!)
  }

  /** Returns the order's arrival number, as given to `restAs`. */
  arrivalOf(slot: number): number {
    return this.#orders.doublePage(slot)[(recordAt(slot) >> 1) + ARRIVAL]!
  }

  expiresAtSecOf(slot: number): number {
    return this.#orders.doublePage(slot)[(recordAt(slot) >> 1) + EXPIRES]!
  }

  /** Returns the slot of the trader; NIL if they have no orders in this book. */
  traderSlot(trader: Address): number {
    return this.#ownerOf(trader, tagOfText(trader, this.#addressPlaces, ADDRESS_WORDS))
  }

  #ownerOf(trader: Address, tag: number): number {
    let owner = this.#byTrader.find(tag)
    while (owner !== NIL && this.#addresses[owner] !== trader) {
      owner = this.#byTrader.findNext(tag)
    }
    return owner
  }

  traderSlotOf(slot: number): number {
    return this.#orders.page(slot)[recordAt(slot) + TRADER_SLOT]!
  }

  /**
   * Takes quantity from a resting order. If nothing remains, the caller must remove the order before any other change
   * of the book.
   */
  take(slot: number, quantity: number): void {
    const orders = this.#orders
    const words = orders.writable(slot)
    const offset = recordAt(slot)
    const doubles = orders.doublePage(slot)
    const at = (offset >> 1) + REMAINING
    const left = doubles[at]! - quantity
    if (quantity <= 0 || left < 0) {
      assert.fail(
        `a fill must be from 1 to ${doubles[at]}, the remaining size of the order, not ${quantity}`,
      )
    }
    doubles[at] = left
    takeFromLevel(this.#levels, words[offset + LEVEL]!, quantity)
  }

  /** Takes quantity from a resting order, reports it, and removes the order if nothing remains. */
  fill(slot: number, quantity: number, into: OrderList): void {
    this.take(slot, quantity)
    this.report(slot, quantity, into)
    if (this.remainingOf(slot) === 0) this.remove(slot)
  }

  /** Removes an order from all four structures. */
  remove(slot: number): void {
    const orders = this.#orders
    const words = orders.writable(slot)
    const offset = recordAt(slot)
    this.#byHash.remove(words[offset + TAG]!, slot)

    const levels = this.#levels
    const level = words[offset + LEVEL]!
    const levelPage = levels.page(level)
    const inLevel = levelAt(level)
    const prev = words[offset + PREV]!
    const next = words[offset + NEXT]!
    if (prev === NIL) levelPage[inLevel + HEAD] = next
    else orders.writable(prev)[recordAt(prev) + NEXT] = next
    if (next === NIL) levelPage[inLevel + TAIL] = prev
    else orders.writable(next)[recordAt(next) + PREV] = prev
    levelPage[inLevel + COUNT]!--
    takeFromLevel(levels, level, orders.doublePage(slot)[(offset >> 1) + REMAINING]!)
    if (prev === NIL && next === NIL) {
      const priceSide = levelPage[inLevel + LEVEL_KEY]! & LEVEL_KEY_MASK
      this.#prices(sideOf(priceSide)).emptied(priceSide >> 1, level)
    }

    const owner = words[offset + TRADER_SLOT]!
    const traderPage = this.#traders.page(owner)
    const inTrader = traderAt(owner)
    const earlier = words[offset + TRADER_PREV]!
    const later = words[offset + TRADER_NEXT]!
    if (earlier === NIL) traderPage[inTrader + TRADER_HEAD] = later
    else orders.writable(earlier)[recordAt(earlier) + TRADER_NEXT] = later
    if (later === NIL) traderPage[inTrader + TRADER_TAIL] = earlier
    else orders.writable(later)[recordAt(later) + TRADER_PREV] = earlier
    traderPage[inTrader + TRADER_COUNT]!--
    if (earlier === NIL && later === NIL) this.#removeTrader(owner)

    this.#wheel.remove(slot)
    orders.free(slot)
  }

  /** Adds a hash that has the same tag (six of its digits) as another hash in the book. */
  #addBeside(orderHash: OrderHash, tag: number, slot: number): void {
    if (this.#slotOf(orderHash, tag) !== NIL) {
      this.#orders.free(slot)
      assert.fail(`${orderHash} rests already`)
    }
    this.#byHash.add(tag, slot)
  }

  /** Returns the slot of the order with this hash and tag; NIL if the order is not in the book. */
  #slotOf(orderHash: OrderHash, tag: number): number {
    let slot = this.#byHash.find(tag)
    while (slot !== NIL && !this.#isHashOf(slot, orderHash, tag)) {
      slot = this.#byHash.findNext(tag)
    }
    return slot
  }

  #isHashOf(slot: number, orderHash: OrderHash, tag: number): boolean {
    const words = this.#orders.page(slot)
    const offset = recordAt(slot)
    // Compare the tag first: reading it also loads the rest of the record, which the caller needs next.
    if (words[offset + TAG] !== tag) return false
    const text = this.#textOf(slot)
    if (text !== undefined) return text === orderHash
    readKey(orderHash, key, HASH_WORDS)
    return sameKey(key, 0, words, offset + HASH, HASH_WORDS)
  }

  /** Returns the text of an order's hash; undefined if the book does not keep the text. */
  #textOf(slot: number): OrderHash | undefined {
    return slot < this.#texts.length ? this.#texts[slot] : undefined
  }

  #prices(side: Side): PriceLevels {
    return side === BUY ? this.#bids : this.#asks
  }

  /** Returns the slot of the trader; adds the trader if this is their first order. */
  #openTrader(trader: Address, tag: number): number {
    const known = this.#ownerOf(trader, tag)
    if (known !== NIL) return known
    readKey(trader, key, ADDRESS_WORDS)
    return this.#addTrader(trader, tag, key, 0)
  }

  #addTrader(trader: Address, tag: number, words: Int32Array, offset: number): number {
    const owner = this.#traders.allocate()
    const page = this.#traders.page(owner)
    const at = traderAt(owner)
    for (let word = 0; word < ADDRESS_WORDS; word++) page[at + word] = words[offset + word]!
    page[at + TRADER_HEAD] = NIL
    page[at + TRADER_TAIL] = NIL
    page[at + TRADER_COUNT] = 0
    page[at + TRADER_TAG] = tag
    this.#addresses[owner] = trader
    this.#byTrader.add(tag, owner)
    this.#watch?.entered(trader)
    return owner
  }

  /** Removes a trader without orders. */
  #removeTrader(owner: number): void {
    this.#byTrader.remove(this.#traders.page(owner)[traderAt(owner) + TRADER_TAG]!, owner)
    this.#traders.free(owner)
    this.#watch?.left(this.#addresses[owner]!)
  }

  *#slots(side: Side): Generator<number, void, undefined> {
    const prices = this.#prices(side)
    for (let price = prices.best; price !== 0; price = prices.next(price)) {
      yield* this.#line(prices.levelAt(price))
    }
  }

  /** Iterates the orders at one price, oldest first. */
  *#line(level: number): Generator<number, void, undefined> {
    let slot = this.#levels.page(level)[levelAt(level) + HEAD]!
    while (slot !== NIL) {
      yield slot
      slot = this.#orders.page(slot)[recordAt(slot) + NEXT]!
    }
  }

  #empty(): void {
    this.#orders = NO_ORDERS
    this.#levels = NO_LEVELS
    this.#traders = NO_TRADERS
    this.#addresses = NO_TEXTS
    this.#texts = NO_TEXTS
    this.#byHash = NO_TAGS
    this.#byTrader = NO_TAGS
    this.#bids = NO_PRICES
    this.#asks = NO_PRICES
    this.#wheel = NO_WHEEL
    this.#newestMs = 0
  }

  /** Allocates memory for the first order. */
  #open(nowSec: number): void {
    this.#orders = new RecordPool(RECORD_SHIFT, this.#ordersMax, STATE)
    this.#levels = new RecordPool(LEVEL_SHIFT, this.#ordersMax)
    this.#traders = new RecordPool(TRADER_SHIFT, this.#ordersMax)
    this.#addresses = []
    this.#texts = []
    this.#byHash = new TagIndex()
    this.#byTrader = new TagIndex()
    this.#bids = new PriceLevels(this.#levels, true)
    this.#asks = new PriceLevels(this.#levels, false)
    this.#wheel = new ExpiryWheel(this.#orders, nowSec)
  }

  #restore(chunks: Iterable<Uint8Array>): void {
    const numbers = new Set<number>()
    let expected = NIL
    // Maps each slot of the snapshot to the order's slot in this book. Restored orders are stored without gaps, so
    // their slots change.
    let moved = new Int32Array(0)
    for (const bytes of chunks) {
      const chunk = readChunk(bytes)
      if (expected === NIL) {
        expected = chunk.orders
        moved = new Int32Array(chunk.slots).fill(NIL)
        if (expected > 0) this.#open(chunk.nowSec)
      }
      const orders = this.#orders
      assert.equal(
        chunk.orders,
        expected,
        'all chunks must be of one snapshot: their order counts differ',
      )
      assert.equal(
        chunk.slots,
        moved.length,
        'all chunks must be of one snapshot: their slot counts differ',
      )
      assert.ok(!numbers.has(chunk.number), 'a restore must get each chunk once')
      numbers.add(chunk.number)
      for (let from = 0; from < chunk.records.length; from += RECORD_WORDS) {
        assert.ok(!orders.isFull, 'the book must have room for all orders of the snapshot')
        const slot = orders.allocate()
        const words = orders.page(slot)
        const offset = recordAt(slot)
        for (let word = 0; word < RECORD_WORDS; word++) {
          words[offset + word] = chunk.records[from + word]!
        }
        moved[words[offset + STATE]!] = slot
        words[offset + STATE] = slot
      }
    }
    const { used, live } = this.#orders
    assert.equal(live, expected, 'a restore must get all chunks of the snapshot')
    if (live === 0) return
    this.#texts = new Array(Math.min(used, TEXTS_MAX)).fill(undefined)
    for (let slot = 0; slot < used; slot++) this.#rejoin(slot, moved)
    for (let slot = 0; slot < used; slot++) {
      const earlier = this.#orders.page(slot)[recordAt(slot) + TRADER_PREV]!
      const placedAtMs = this.placedAtMsOf(slot)
      this.#newestMs = Math.max(this.#newestMs, placedAtMs)
      const isSorted = earlier === NIL || this.placedAtMsOf(earlier) <= placedAtMs
      if (!isSorted) this.#sortOrdersOf(this.traderSlotOf(slot))
    }
  }

  /**
   * Sorts a trader's list of orders by placement time. Snapshots of earlier versions may have unsorted lists: when an
   * order re-entered the book after a failed trade, those versions appended it.
   */
  #sortOrdersOf(owner: number): void {
    const orders = this.#orders
    const page = this.#traders.page(owner)
    const at = traderAt(owner)
    const slots: number[] = []
    for (let slot = page[at + TRADER_HEAD]!; slot !== NIL; slot = this.youngerOf(slot)) {
      slots.push(slot)
    }
    slots.sort((a, b) => this.placedAtMsOf(a) - this.placedAtMsOf(b))
    for (const [index, slot] of slots.entries()) {
      const words = orders.writable(slot)
      words[recordAt(slot) + TRADER_PREV] = slots[index - 1] ?? NIL
      words[recordAt(slot) + TRADER_NEXT] = slots[index + 1] ?? NIL
    }
    page[at + TRADER_HEAD] = slots[0] ?? NIL
    page[at + TRADER_TAIL] = slots.at(-1) ?? NIL
  }

  /**
   * Links a restored order into all structures. The order keeps its place in its level's queue and in its trader's
   * list.
   */
  #rejoin(slot: number, moved: Int32Array): void {
    const orders = this.#orders
    const levels = this.#levels
    const traders = this.#traders
    const words = orders.page(slot)
    const offset = recordAt(slot)

    const priceSide = words[offset + PRICE_SIDE]! & PRICE_SIDE_MASK
    const price = priceOf(priceSide)
    const prices = this.#prices(sideOf(priceSide))
    const level = prices.levelOf(price, priceSide)
    words[offset + LEVEL] = level
    const page = levels.page(level)
    const at = levelAt(level)
    if (relink(words, offset + PREV, moved) === NIL) {
      page[at + HEAD] = slot
      prices.filled(price, level)
    }
    if (relink(words, offset + NEXT, moved) === NIL) page[at + TAIL] = slot
    page[at + COUNT]!++
    addToLevel(levels, level, orders.doublePage(slot)[(offset >> 1) + REMAINING]!)

    const owner = this.#rejoinedTrader(words, offset + TRADER)
    words[offset + TRADER_SLOT] = owner
    const ends = traders.page(owner)
    const end = traderAt(owner)
    ends[end + TRADER_COUNT]!++
    if (relink(words, offset + TRADER_PREV, moved) === NIL) ends[end + TRADER_HEAD] = slot
    if (relink(words, offset + TRADER_NEXT, moved) === NIL) ends[end + TRADER_TAIL] = slot

    if (this.#hasArrivals) {
      const doubles = orders.doublePage(slot)
      doubles[(offset >> 1) + ARRIVAL] = doubles[(offset >> 1) + ARRIVAL_COPY]!
    }
    const tag = tagOfWords(words, offset + HASH, this.#hashPlaces)
    words[offset + TAG] = tag
    this.#byHash.add(tag, slot)
    this.#wheel.add(slot)
  }

  /**
   * Returns the slot of the trader with the address at `offset`; adds the trader if they have no restored
   * order yet.
   */
  #rejoinedTrader(words: Int32Array, offset: number): number {
    const traders = this.#traders
    const tag = tagOfWords(words, offset, this.#addressPlaces)
    let owner = this.#byTrader.find(tag)
    while (owner !== NIL) {
      if (sameKey(words, offset, traders.page(owner), traderAt(owner), ADDRESS_WORDS)) return owner
      owner = this.#byTrader.findNext(tag)
    }
    const trader = writeKey(words, offset, ADDRESS_WORDS) as Address
    return this.#addTrader(trader, tag, words, offset)
  }

  /**
   * Returns a function that completes the copy of a record for a snapshot. It adds the trader's address, and the hash
   * if the book keeps it as text: the record itself does not contain them. The copy begins at index `at` of `copy`.
   */
  #completer(): (copy: Int32Array, at: number, slot: number) => void {
    const [orders, traders, texts] = [this.#orders, this.#traders, this.#texts]
    const hasArrivals = this.#hasArrivals
    const key = new Int32Array(HASH_WORDS)
    return (copy, at, slot) => {
      // Leave the tag out of the copy: it would reveal part of the secret seed.
      copy[at + TAG] = NIL
      const record = orders.page(slot)
      const owner = record[recordAt(slot) + TRADER_SLOT]!
      for (let word = 0; hasArrivals && word < 2; word++) {
        copy[at + 2 * ARRIVAL_COPY + word] = record[recordAt(slot) + 2 * ARRIVAL + word]!
      }
      const page = traders.page(owner)
      const from = traderAt(owner)
      for (let word = 0; word < ADDRESS_WORDS; word++) copy[at + TRADER + word] = page[from + word]!
      const text = slot < texts.length ? texts[slot] : undefined
      if (text === undefined) return
      readKey(text, key, HASH_WORDS)
      copy.set(key, at + HASH)
    }
  }
}

/** Asserts the bounds that the caller has already checked. A value outside the bounds is a bug. */
function checkTerms(order: OrderTerms, remaining: number, matches: number): void {
  const { price, size, expiresAtSec, placedAtMs } = order
  if (!isPrice(price)) assert.fail(`price must be from 1 to 999999, not ${price}`)
  if (!isShares(size)) assert.fail(`size must be from 1 to 2^53 - 1, not ${size}`)
  if (!isShares(remaining) || remaining > size)
    assert.fail(`remaining must be from 1 to ${size}, not ${remaining}`)
  if (!Number.isSafeInteger(expiresAtSec) || expiresAtSec < 0) {
    assert.fail(`expiresAtSec must be whole seconds, not ${expiresAtSec}`)
  }
  if (!Number.isSafeInteger(placedAtMs) || placedAtMs < 0) {
    assert.fail(`placedAtMs must be whole milliseconds, not ${placedAtMs}`)
  }
  if ((matches | 0) !== matches || matches < 0)
    assert.fail(`matches must be a whole number, not ${matches}`)
}

/** Positions of the hash digits and of the address digits that form a tag. All books with the same seed share them. */
let places: { readonly seed: number; readonly hash: Uint8Array; readonly address: Uint8Array }

function placesOf(seed: number): typeof places {
  if (places?.seed !== seed) {
    const [hash, address] = [tagPlaces(seed, HASH_WORDS), tagPlaces(seed, ADDRESS_WORDS)]
    places = { seed, hash, address }
  }
  return places
}

/** Returns the index of a trader's first word in their page. */
function traderAt(owner: number): number {
  return (owner & PAGE_MASK) << TRADER_SHIFT
}

/**
 * Replaces a link in a restored record: the order's slot in the snapshot becomes its slot in this book.
 * Returns the new slot.
 */
function relink(words: Int32Array, at: number, moved: Int32Array): number {
  const old = words[at]!
  if (old === NIL) return NIL
  const now = moved[old] ?? NIL
  if (now === NIL)
    assert.fail('a queue of the snapshot refers to an order that is not in the snapshot')
  words[at] = now
  return now
}
