/**
 * The book of one outcome of one market: resting buys and sells in price-time priority, exact
 * integers only. It knows no clock, no randomness and no outside; it never trades by itself, that
 * is `match.ts`. Nothing it does is linear in the number of orders, except to list them all.
 *
 * An order is one record in a pool and hangs in four structures at once: the queue of its price
 * level, the list of its trader, the index by hash and the expiry wheel. Slots are the numbers of
 * records; one from `locate` or `bestOrder` is good until the book next changes.
 */

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import type { Address, OrderHash } from '#domain/ids.ts'
import { isPrice, isShares, type Price, type Shares } from '#domain/money.ts'
import { BUY, SELL, type Side } from '#domain/order.ts'
import { ExpiryWheel } from './expiry-wheel.ts'
import { KeyIndex } from './key-index.ts'
import { ADDRESS_WORDS, HASH_WORDS, readKey } from './key-words.ts'
import {
  addToLevel,
  COUNT,
  HEAD,
  LEVEL_SHIFT,
  levelTotal,
  openLevel,
  TAIL,
  takeFromLevel,
} from './level.ts'
import type { OrderList } from './order-list.ts'
import {
  EXPIRES,
  HASH,
  MATCHES,
  NEXT,
  PLACED,
  PREV,
  PRICE_SIDE,
  RECORD_SHIFT,
  RECORD_WORDS,
  REMAINING,
  type RestingOrder,
  readRecord,
  SIZE,
  STATE,
  TRADER,
  TRADER_NEXT,
  TRADER_PREV,
  TRADER_SLOT,
} from './order-record.ts'
import { PriceLadder } from './price-ladder.ts'
import { NIL, RecordPool } from './record-pool.ts'
import { BookSnapshot, readChunk } from './snapshot.ts'

export type BookOptions = {
  /** Orders that may rest at once. */
  readonly ordersMax: number
  /** Any number; keeps traders from choosing hashes that collide in the indices. */
  readonly seed?: number
}

export type Level = {
  readonly price: Price
  /** Everything that rests at the price; it may exceed what a number holds exactly. */
  readonly size: bigint
  readonly orders: number
}

/** A trader's record of 16 words: the address, then the list of his orders and its length. */
const TRADER_SHIFT = 4
const TRADER_HEAD = 5
const TRADER_TAIL = 6
const TRADER_COUNT = 7

export class Book {
  readonly #ordersMax: number
  readonly #seed: number
  readonly #key = new Int32Array(HASH_WORDS)
  #orders!: RecordPool
  #levels!: RecordPool
  #traders!: RecordPool
  #byHash!: KeyIndex
  #byTrader!: KeyIndex
  #bids!: PriceLadder
  #asks!: PriceLadder
  #wheel!: ExpiryWheel
  #snapshot: BookSnapshot | undefined

  constructor(options: BookOptions) {
    assert.ok(Number.isSafeInteger(options.ordersMax) && options.ordersMax >= 0)
    this.#ordersMax = options.ordersMax
    this.#seed = (options.seed ?? 0) | 0
    this.#empty(0)
  }

  /** How many orders rest. */
  get count(): number {
    return this.#orders.live
  }

  get isFull(): boolean {
    return this.#orders.isFull
  }

  /** The highest price that somebody pays; 0 when nobody buys. */
  get bestBid(): number {
    return this.#bids.best
  }

  /** The lowest price that somebody takes; 0 when nobody sells. */
  get bestAsk(): number {
    return this.#asks.best
  }

  /** No order expires before this second; undefined when none rests. */
  get nextExpirySec(): number | undefined {
    return this.#wheel.nextSec
  }

  /**
   * Rests an order, or what a match left of it, behind all others at its price. Answers false when
   * the book is full. The order must not cross the book: match it first.
   */
  rest(order: RestingOrder): boolean {
    const { side, price, size, remaining, expiresAtSec, placedAtMs, matches } = order
    if (!isPrice(price)) assert.fail(`a price of 1 to 999999, not ${price}`)
    if (!isShares(size)) assert.fail(`a size of 1 to 2^53 - 1, not ${size}`)
    if (!isShares(remaining) || remaining > size) assert.fail(`${remaining} remains of ${size}`)
    if (!Number.isSafeInteger(expiresAtSec) || expiresAtSec < 0) {
      assert.fail(`an expiration in whole seconds, not ${expiresAtSec}`)
    }
    if (!Number.isSafeInteger(placedAtMs) || placedAtMs < 0) {
      assert.fail(`a time in whole milliseconds, not ${placedAtMs}`)
    }
    if ((matches | 0) !== matches || matches < 0) assert.fail(`a number of matches: ${matches}`)
    if (this.crosses(side, price)) assert.fail('an order that crosses the book cannot rest')
    const orders = this.#orders
    if (orders.isFull) return false
    const key = this.#key
    readKey(order.orderHash, key, HASH_WORDS)
    const tag = this.#byHash.tag(key, 0)
    if (this.#byHash.find(tag, key) !== NIL) assert.fail(`${order.orderHash} rests already`)

    const slot = orders.allocate()
    const words = orders.page(slot)
    const offset = orders.offset(slot)
    for (let word = 0; word < HASH_WORDS; word++) words[offset + HASH + word] = key[word]!
    this.#byHash.add(tag, slot)
    readKey(order.trader, key, ADDRESS_WORDS)
    for (let word = 0; word < ADDRESS_WORDS; word++) words[offset + TRADER + word] = key[word]!
    words[offset + PRICE_SIDE] = price * 2 + side
    words[offset + MATCHES] = matches
    const doubles = orders.doublePage(slot)
    const half = offset >> 1
    doubles[half + SIZE] = size
    doubles[half + REMAINING] = remaining
    doubles[half + EXPIRES] = expiresAtSec
    doubles[half + PLACED] = placedAtMs

    this.#joinLevel(slot, side, price, remaining)
    this.#joinTrader(slot)
    this.#wheel.add(slot)
    return true
  }

  /** Takes the order out of the book and answers what it was; undefined when it does not rest. */
  cancel(orderHash: OrderHash): RestingOrder | undefined {
    const slot = this.locate(orderHash)
    if (slot === NIL) return undefined
    const order = this.read(slot)
    this.remove(slot)
    return order
  }

  find(orderHash: OrderHash): RestingOrder | undefined {
    const slot = this.locate(orderHash)
    return slot === NIL ? undefined : this.read(slot)
  }

  /**
   * Gives quantity back to a resting order, which keeps its place. Answers what remains of it now,
   * or undefined when it does not rest.
   */
  grow(orderHash: OrderHash, quantity: Shares): number | undefined {
    const slot = this.locate(orderHash)
    if (slot === NIL) return undefined
    const orders = this.#orders
    const words = orders.writable(slot)
    const offset = orders.offset(slot)
    const doubles = orders.doublePage(slot)
    const at = (offset >> 1) + REMAINING
    const missing = doubles[(offset >> 1) + SIZE]! - doubles[at]!
    if (!isShares(quantity) || quantity > missing) {
      assert.fail(`${quantity} given back to an order that misses ${missing}`)
    }
    doubles[at] = doubles[at]! + quantity
    addToLevel(this.#levels, this.#levelOf(words[offset + PRICE_SIDE]!), quantity)
    return doubles[at]!
  }

  /**
   * Removes orders whose expiration has come and adds them to `into`. It ends after `stepsMax`
   * steps, each of which removes or moves one order, and answers whether none is left.
   */
  expire(nowSec: number, stepsMax: number, into: OrderList): boolean {
    for (let steps = 0; steps < stepsMax; steps++) {
      const slot = this.#wheel.step(nowSec)
      if (slot === undefined) continue
      if (slot === NIL) return true
      into.push(this.#orders, slot, 0)
      this.remove(slot)
    }
    const next = this.#wheel.nextSec
    return next === undefined || next > nowSec
  }

  /** Whether an order at this price would meet one of the other side. */
  crosses(side: Side, price: number): boolean {
    if (side === BUY) return this.#asks.best !== 0 && this.#asks.best <= price
    return this.#bids.best >= price
  }

  /** The exact sum of what rests at a price. */
  levelSize(side: Side, price: Price): bigint {
    const level = this.#ladder(side).at(price)
    return level === NIL ? 0n : levelTotal(this.#levels, level)
  }

  /** The best levels of a side, best first. */
  depth(side: Side, levelsMax = Number.POSITIVE_INFINITY): Level[] {
    const ladder = this.#ladder(side)
    const levels: Level[] = []
    for (let price = ladder.best; price !== 0; price = ladder.next(price)) {
      if (levels.length >= levelsMax) break
      const level = ladder.at(price)
      const orders = this.#levels.page(level)[this.#levels.offset(level) + COUNT]!
      levels.push({ price: price as Price, size: levelTotal(this.#levels, level), orders })
    }
    return levels
  }

  /** Open orders of a trader, in the order in which they came to rest. */
  ordersOf(trader: Address, ordersMax = Number.POSITIVE_INFINITY): RestingOrder[] {
    const found: RestingOrder[] = []
    const owner = this.traderSlot(trader)
    if (owner === NIL) return found
    let slot = this.#traders.page(owner)[this.#traders.offset(owner) + TRADER_HEAD]!
    while (slot !== NIL && found.length < ordersMax) {
      found.push(this.read(slot))
      slot = this.#orders.page(slot)[this.#orders.offset(slot) + TRADER_NEXT]!
    }
    return found
  }

  /** How many orders of the trader rest. */
  countOf(trader: Address): number {
    const owner = this.traderSlot(trader)
    if (owner === NIL) return 0
    return this.#traders.page(owner)[this.#traders.offset(owner) + TRADER_COUNT]!
  }

  /** The orders of a side in price-time priority. The book must not change meanwhile. */
  *orders(side: Side): Generator<RestingOrder, void, undefined> {
    for (const slot of this.#slots(side)) yield this.read(slot)
  }

  /** Drops every order at once. A snapshot under way still holds those it began with. */
  clear(): void {
    this.#empty(this.#wheel.nowSec)
    this.#snapshot = undefined
  }

  /** Begins a snapshot of this instant; one at a time. */
  beginSnapshot(): BookSnapshot {
    if (this.#snapshot !== undefined && !this.#snapshot.done) {
      assert.fail('a snapshot of this book is under way')
    }
    this.#snapshot = new BookSnapshot(this.#orders, this.#wheel.nowSec)
    return this.#snapshot
  }

  /** The book that a snapshot holds, from all of its chunks in any order. */
  static restore(chunks: Iterable<Uint8Array>, options: BookOptions): Book {
    const book = new Book(options)
    book.#restore(chunks)
    return book
  }

  /**
   * A SHA-256 over every order in price-time priority, bids then asks: equal for books that hold
   * the same orders in the same queues, wherever they lie in memory.
   */
  stateHash(): string {
    const sum = createHash('sha256')
    const image = new Int32Array(1024 * IMAGE_WORDS)
    let filled = 0
    for (const side of [BUY, SELL] as const) {
      for (const slot of this.#slots(side)) {
        const page = this.#orders.page(slot)
        const offset = this.#orders.offset(slot)
        for (let word = 0; word < PREV; word++) image[filled + word] = page[offset + word]!
        image[filled + PREV] = page[offset + MATCHES]!
        filled += IMAGE_WORDS
        if (filled < image.length) continue
        sum.update(image)
        filled = 0
      }
    }
    return sum.update(image.subarray(0, filled)).digest('hex')
  }

  /** The slot of a resting order, NIL when it does not rest. */
  locate(orderHash: OrderHash): number {
    readKey(orderHash, this.#key, HASH_WORDS)
    return this.#byHash.find(this.#byHash.tag(this.#key, 0), this.#key)
  }

  read(slot: number): RestingOrder {
    const orders = this.#orders
    return readRecord(orders.page(slot), orders.doublePage(slot), orders.offset(slot))
  }

  /** Copies the order into a list, with what a match took of it. */
  report(slot: number, taken: number, into: OrderList): void {
    into.push(this.#orders, slot, taken)
  }

  /** The order that is first in line on a side, NIL when the side is empty. */
  bestOrder(side: Side): number {
    const ladder = this.#ladder(side)
    if (ladder.best === 0) return NIL
    const level = ladder.at(ladder.best)
    return this.#levels.page(level)[this.#levels.offset(level) + HEAD]!
  }

  remainingOf(slot: number): number {
    return this.#orders.doublePage(slot)[(this.#orders.offset(slot) >> 1) + REMAINING]!
  }

  expiresAtSecOf(slot: number): number {
    return this.#orders.doublePage(slot)[(this.#orders.offset(slot) >> 1) + EXPIRES]!
  }

  /** What stands for the trader while he has orders in this book; NIL when he has none. */
  traderSlot(trader: Address): number {
    readKey(trader, this.#key, ADDRESS_WORDS)
    return this.#byTrader.find(this.#byTrader.tag(this.#key, 0), this.#key)
  }

  traderSlotOf(slot: number): number {
    return this.#orders.page(slot)[this.#orders.offset(slot) + TRADER_SLOT]!
  }

  /** Takes quantity from a resting order. One of which nothing remains must be removed at once. */
  take(slot: number, quantity: number): void {
    const orders = this.#orders
    const words = orders.writable(slot)
    const offset = orders.offset(slot)
    const doubles = orders.doublePage(slot)
    const at = (offset >> 1) + REMAINING
    const left = doubles[at]! - quantity
    if (quantity <= 0 || left < 0) assert.fail(`${quantity} taken from ${doubles[at]}`)
    doubles[at] = left
    takeFromLevel(this.#levels, this.#levelOf(words[offset + PRICE_SIDE]!), quantity)
  }

  /** Takes an order out of all four structures. */
  remove(slot: number): void {
    const orders = this.#orders
    this.#leaveLevel(slot)
    this.#leaveTrader(slot)
    this.#wheel.remove(slot)
    const tag = this.#byHash.tag(orders.page(slot), orders.offset(slot) + HASH)
    this.#byHash.remove(tag, slot)
    orders.free(slot)
  }

  #ladder(side: Side): PriceLadder {
    return side === BUY ? this.#bids : this.#asks
  }

  #levelOf(priceSide: number): number {
    return ((priceSide & 1) === BUY ? this.#bids : this.#asks).at(priceSide >> 1)
  }

  #joinLevel(slot: number, side: Side, price: number, remaining: number): void {
    const orders = this.#orders
    const levels = this.#levels
    const ladder = this.#ladder(side)
    let level = ladder.at(price)
    if (level === NIL) {
      level = openLevel(levels)
      ladder.put(price, level)
    }
    const page = levels.page(level)
    const at = levels.offset(level)
    const tail = page[at + TAIL]!
    const words = orders.writable(slot)
    const offset = orders.offset(slot)
    words[offset + PREV] = tail
    words[offset + NEXT] = NIL
    if (tail === NIL) page[at + HEAD] = slot
    else orders.writable(tail)[orders.offset(tail) + NEXT] = slot
    page[at + TAIL] = slot
    page[at + COUNT]!++
    addToLevel(levels, level, remaining)
  }

  #leaveLevel(slot: number): void {
    const orders = this.#orders
    const levels = this.#levels
    const words = orders.page(slot)
    const offset = orders.offset(slot)
    const priceSide = words[offset + PRICE_SIDE]!
    const level = this.#levelOf(priceSide)
    const page = levels.page(level)
    const at = levels.offset(level)
    const prev = words[offset + PREV]!
    const next = words[offset + NEXT]!
    if (prev === NIL) page[at + HEAD] = next
    else orders.writable(prev)[orders.offset(prev) + NEXT] = next
    if (next === NIL) page[at + TAIL] = prev
    else orders.writable(next)[orders.offset(next) + PREV] = prev
    page[at + COUNT]!--
    if (page[at + COUNT] !== 0) {
      takeFromLevel(levels, level, orders.doublePage(slot)[(offset >> 1) + REMAINING]!)
      return
    }
    this.#ladder((priceSide & 1) === BUY ? BUY : SELL).drop(priceSide >> 1)
    levels.free(level)
  }

  /** Enters the order at the end of its trader's list; the record knows the address. */
  #joinTrader(slot: number): void {
    const orders = this.#orders
    const traders = this.#traders
    const words = orders.writable(slot)
    const offset = orders.offset(slot)
    const owner = this.#ownerOf(words, offset)
    const page = traders.page(owner)
    const at = traders.offset(owner)
    const tail = page[at + TRADER_TAIL]!
    words[offset + TRADER_SLOT] = owner
    words[offset + TRADER_PREV] = tail
    words[offset + TRADER_NEXT] = NIL
    if (tail === NIL) page[at + TRADER_HEAD] = slot
    else orders.writable(tail)[orders.offset(tail) + TRADER_NEXT] = slot
    page[at + TRADER_TAIL] = slot
    page[at + TRADER_COUNT]!++
  }

  /** The trader of an order, who is entered when this is his first. */
  #ownerOf(words: Int32Array, offset: number): number {
    const traders = this.#traders
    const key = this.#key
    for (let word = 0; word < ADDRESS_WORDS; word++) key[word] = words[offset + TRADER + word]!
    const tag = this.#byTrader.tag(key, 0)
    const known = this.#byTrader.find(tag, key)
    if (known !== NIL) return known
    const owner = traders.allocate()
    const page = traders.page(owner)
    const at = traders.offset(owner)
    for (let word = 0; word < ADDRESS_WORDS; word++) page[at + word] = key[word]!
    page[at + TRADER_HEAD] = NIL
    page[at + TRADER_TAIL] = NIL
    page[at + TRADER_COUNT] = 0
    this.#byTrader.add(tag, owner)
    return owner
  }

  #leaveTrader(slot: number): void {
    const orders = this.#orders
    const traders = this.#traders
    const words = orders.page(slot)
    const offset = orders.offset(slot)
    const owner = words[offset + TRADER_SLOT]!
    const page = traders.page(owner)
    const at = traders.offset(owner)
    const prev = words[offset + TRADER_PREV]!
    const next = words[offset + TRADER_NEXT]!
    if (prev === NIL) page[at + TRADER_HEAD] = next
    else orders.writable(prev)[orders.offset(prev) + TRADER_NEXT] = next
    if (next === NIL) page[at + TRADER_TAIL] = prev
    else orders.writable(next)[orders.offset(next) + TRADER_PREV] = prev
    page[at + TRADER_COUNT]!--
    if (page[at + TRADER_COUNT] !== 0) return
    this.#byTrader.remove(this.#byTrader.tag(page, at), owner)
    traders.free(owner)
  }

  *#slots(side: Side): Generator<number, void, undefined> {
    const ladder = this.#ladder(side)
    for (let price = ladder.best; price !== 0; price = ladder.next(price)) {
      const level = ladder.at(price)
      let slot = this.#levels.page(level)[this.#levels.offset(level) + HEAD]!
      while (slot !== NIL) {
        yield slot
        slot = this.#orders.page(slot)[this.#orders.offset(slot) + NEXT]!
      }
    }
  }

  #empty(nowSec: number): void {
    this.#orders = new RecordPool(RECORD_SHIFT, this.#ordersMax)
    this.#levels = new RecordPool(LEVEL_SHIFT, this.#ordersMax)
    this.#traders = new RecordPool(TRADER_SHIFT, this.#ordersMax)
    this.#byHash = new KeyIndex(this.#orders, HASH_WORDS, this.#seed)
    this.#byTrader = new KeyIndex(this.#traders, ADDRESS_WORDS, this.#seed)
    this.#bids = new PriceLadder(true)
    this.#asks = new PriceLadder(false)
    this.#wheel = new ExpiryWheel(this.#orders, nowSec)
  }

  #restore(chunks: Iterable<Uint8Array>): void {
    const orders = this.#orders
    const numbers = new Set<number>()
    let expected = NIL
    // Where the slot of the snapshot is now: restored orders lie close together.
    let moved = new Int32Array(0)
    for (const bytes of chunks) {
      const chunk = readChunk(bytes)
      if (expected === NIL) {
        expected = chunk.orders
        moved = new Int32Array(chunk.slots).fill(NIL)
        this.#wheel = new ExpiryWheel(orders, chunk.nowSec)
      }
      assert.equal(chunk.orders, expected, 'chunks of one snapshot')
      assert.equal(chunk.slots, moved.length, 'chunks of one snapshot')
      assert.ok(!numbers.has(chunk.number), 'each chunk once')
      numbers.add(chunk.number)
      for (let from = 0; from < chunk.records.length; from += RECORD_WORDS) {
        assert.ok(!orders.isFull, 'a book that has room for the snapshot')
        const slot = orders.allocate()
        const words = orders.page(slot)
        const offset = orders.offset(slot)
        for (let word = 0; word < STATE; word++) words[offset + word] = chunk.records[from + word]!
        moved[chunk.records[from + STATE]!] = slot
      }
    }
    assert.equal(orders.live, expected, 'all chunks of the snapshot')
    for (let slot = 0; slot < orders.used; slot++) this.#rejoin(slot, moved)
  }

  /** Enters a restored record into the structures, keeping its place in the queues. */
  #rejoin(slot: number, moved: Int32Array): void {
    const orders = this.#orders
    const levels = this.#levels
    const traders = this.#traders
    const words = orders.page(slot)
    const offset = orders.offset(slot)

    const priceSide = words[offset + PRICE_SIDE]!
    const ladder = this.#ladder((priceSide & 1) === BUY ? BUY : SELL)
    let level = ladder.at(priceSide >> 1)
    if (level === NIL) {
      level = openLevel(levels)
      ladder.put(priceSide >> 1, level)
    }
    const page = levels.page(level)
    const at = levels.offset(level)
    if (relink(words, offset + PREV, moved) === NIL) page[at + HEAD] = slot
    if (relink(words, offset + NEXT, moved) === NIL) page[at + TAIL] = slot
    page[at + COUNT]!++
    addToLevel(levels, level, orders.doublePage(slot)[(offset >> 1) + REMAINING]!)

    const owner = this.#ownerOf(words, offset)
    words[offset + TRADER_SLOT] = owner
    const ends = traders.page(owner)
    const end = traders.offset(owner)
    ends[end + TRADER_COUNT]!++
    if (relink(words, offset + TRADER_PREV, moved) === NIL) ends[end + TRADER_HEAD] = slot
    if (relink(words, offset + TRADER_NEXT, moved) === NIL) ends[end + TRADER_TAIL] = slot

    this.#byHash.add(this.#byHash.tag(words, offset + HASH), slot)
    this.#wheel.add(slot)
  }
}

/** The words of a record up to its links, and its matches. */
const IMAGE_WORDS = PREV + 1

/** Points a link of a restored record to where its order is now. */
function relink(words: Int32Array, at: number, moved: Int32Array): number {
  const old = words[at]!
  if (old === NIL) return NIL
  const now = moved[old] ?? NIL
  if (now === NIL) assert.fail('a snapshot whose queues are whole')
  words[at] = now
  return now
}
