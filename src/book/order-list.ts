/**
 * A list of orders that a book reports. The list copies the records into one reused buffer, so that a match creates no
 * garbage. Texts are created only when they are read. Later changes of the book do not affect the list. It is valid
 * until its owner passes it to the next operation, which overwrites it.
 */

import type { Address, OrderHash } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import type { Side } from '#domain/order.ts'
import { writeKey } from './key-words.ts'
import * as layout from './layout.ts'
import { priceOf, type RestingOrder, readRecord, recordAt, sideOf } from './order-record.ts'
import type { RecordPool } from './record-pool.ts'

const {
  HASH_WORDS,
  RECORD_SHIFT,
  RECORD_WORDS,
  HASH,
  PRICE_SIDE,
  SIZE,
  REMAINING,
  EXPIRES,
  PLACED,
  MATCHES,
  TAKEN,
} = layout

export class OrderList {
  length = 0
  #words = new Int32Array(8 * RECORD_WORDS)
  #doubles = new Float64Array(this.#words.buffer)
  readonly #traders: Address[] = []
  /** Text of each order's hash; undefined if the book does not keep the text. `orderHash` then creates the text. */
  readonly #hashes: (OrderHash | undefined)[] = []

  clear(): void {
    this.length = 0
  }

  /**
   * Copies the order as it is now. `taken` is the quantity that a match took, otherwise 0. A match calls `push` for
   * each maker, so the values are separate parameters and no object is created.
   */
  push(
    pool: RecordPool,
    slot: number,
    taken: number,
    trader: Address,
    orderHash: OrderHash | undefined,
  ): void {
    const to = this.length << RECORD_SHIFT
    if (to === this.#words.length) this.#enlarge()
    const from = recordAt(slot)
    const page = pool.page(slot)
    const words = this.#words
    const doubles = this.#doubles
    const numbers = pool.doublePage(slot)
    words[to + PRICE_SIDE] = page[from + PRICE_SIDE]!
    words[to + MATCHES] = page[from + MATCHES]!
    const half = to >> 1
    const number = from >> 1
    doubles[half + SIZE] = numbers[number + SIZE]!
    doubles[half + REMAINING] = numbers[number + REMAINING]!
    doubles[half + EXPIRES] = numbers[number + EXPIRES]!
    doubles[half + PLACED] = numbers[number + PLACED]!
    doubles[half + TAKEN] = taken
    this.#traders[this.length] = trader
    this.#hashes[this.length] = orderHash
    // If the text of the hash is known, the words of the hash are not copied.
    if (orderHash === undefined) {
      for (let word = HASH; word < HASH_WORDS; word++) words[to + word] = page[from + word]!
    }
    this.length++
  }

  orderHash(index: number): OrderHash {
    const at = this.#at(index)
    return this.#hashes[index] ?? (writeKey(this.#words, at + HASH, HASH_WORDS) as OrderHash)
  }

  trader(index: number): Address {
    this.#at(index)
    return this.#traders[index]!
  }

  side(index: number): Side {
    return sideOf(this.#words[this.#at(index) + PRICE_SIDE]!)
  }

  price(index: number): Price {
    return priceOf(this.#words[this.#at(index) + PRICE_SIDE]!)
  }

  size(index: number): Shares {
    return this.#doubles[(this.#at(index) >> 1) + SIZE]! as Shares
  }

  /** Returns the order's remaining quantity at the time of the report; 0 if the order was filled. */
  remaining(index: number): number {
    return this.#doubles[(this.#at(index) >> 1) + REMAINING]!
  }

  /** Returns the quantity that the match took at the order's price; 0 without a trade. */
  taken(index: number): Shares {
    return this.#doubles[(this.#at(index) >> 1) + TAKEN]! as Shares
  }

  expiresAtSec(index: number): number {
    return this.#doubles[(this.#at(index) >> 1) + EXPIRES]!
  }

  placedAtMs(index: number): number {
    return this.#doubles[(this.#at(index) >> 1) + PLACED]!
  }

  matches(index: number): number {
    return this.#words[this.#at(index) + MATCHES]!
  }

  order(index: number): RestingOrder {
    return readRecord(
      this.#words,
      this.#doubles,
      this.#at(index),
      this.trader(index),
      this.orderHash(index),
    )
  }

  #at(index: number): number {
    if (index < 0 || index >= this.length) throw new RangeError(`this list has no order ${index}`)
    return index << RECORD_SHIFT
  }

  #enlarge(): void {
    const words = new Int32Array(2 * this.#words.length)
    words.set(this.#words)
    this.#words = words
    this.#doubles = new Float64Array(words.buffer)
  }
}
