/**
 * Finds expired orders with a hierarchical timer wheel. The wheel has `LEVELS` levels of 32 buckets. To place an order,
 * its expiration second is compared with the wheel's time, digit by digit in base 32. The highest digit that differs
 * selects the level. The value of this digit in the expiration second selects the bucket. A bucket of level 0 covers
 * one second; a bucket of a higher level covers more. When the wheel's time reaches a bucket of a higher level, the
 * orders of this bucket move to lower levels. Adding and removing are O(1), an order moves a few times in its life, and
 * no step moves more than one order.
 *
 * Example: the wheel is at second 1000 (31·32 + 8). Second 1003 (31·32 + 11) differs in digit 0, so its orders are in
 * bucket 11 of level 0 and are found at second 1003. Second 1100 (1·1024 + …) differs in digit 2, so its orders are in
 * bucket 1 of level 2. They move to lower levels from second 1024 on.
 */

import * as layout from './layout.ts'
import { recordAt } from './order-record.ts'
import type { RecordPool } from './record-pool.ts'

const { NIL, PRICE_SIDE, PRICE_SIDE_MASK, DUE_SHIFT, EXPIRES, DUE_PREV, DUE_NEXT } = layout

/** Number of levels, one for each base-32 digit. Eleven digits of five bits cover every safe integer. */
const LEVELS = 11
/** Numbers below this have at most six base-32 digits, which fit into 32-bit arithmetic. */
const LOW = 2 ** 30

export class ExpiryWheel {
  readonly #pool: RecordPool
  #heads: Int32Array | undefined
  readonly #bits = new Int32Array(LEVELS)
  #levels = 0
  #nowLow = 0
  #nowHigh = 0
  /** The wheel's time in seconds, with its six lowest base-32 digits set to 0. */
  #highSec = 0
  /** The bucket whose orders are being moved to lower levels; NIL if there is none. */
  #spreading = NIL

  constructor(pool: RecordPool, nowSec: number) {
    this.#pool = pool
    this.#setNow(nowSec)
  }

  get nowSec(): number {
    return this.#highSec + this.#nowLow
  }

  /**
   * Returns the earliest second at which an order may expire; undefined if the wheel is empty. No order expires before
   * it.
   */
  get nextSec(): number | undefined {
    if (this.#spreading !== NIL) return this.nowSec
    if (this.#levels === 0) return undefined
    return this.#start(lowest(this.#levels))
  }

  /** Adds an order to the bucket of its expiration. */
  add(slot: number): void {
    const pool = this.#pool
    const page = pool.writable(slot)
    const offset = recordAt(slot)
    // If the order has already expired, it goes to the bucket of the wheel's current second, which `step` searches
    // next.
    const second = pool.doublePage(slot)[(offset >> 1) + EXPIRES]!
    const low = Math.max(second - this.#highSec, this.#nowLow)
    const bucket = low < LOW ? lowBucket(low, this.#nowLow) : this.#highBucket(second)

    this.#heads ??= new Int32Array(LEVELS * 32).fill(NIL)
    const heads = this.#heads
    const head = heads[bucket]!
    page[offset + DUE_PREV] = NIL
    page[offset + DUE_NEXT] = head
    page[offset + PRICE_SIDE] =
      (page[offset + PRICE_SIDE]! & PRICE_SIDE_MASK) | (bucket << DUE_SHIFT)
    heads[bucket] = slot
    if (head !== NIL) {
      pool.writable(head)[recordAt(head) + DUE_PREV] = slot
      return
    }
    this.#bits[bucket >> 5]! |= 1 << (bucket & 31)
    this.#levels |= 1 << (bucket >> 5)
  }

  remove(slot: number): void {
    const pool = this.#pool
    const page = pool.page(slot)
    const offset = recordAt(slot)
    const prev = page[offset + DUE_PREV]!
    const next = page[offset + DUE_NEXT]!
    if (next !== NIL) pool.writable(next)[recordAt(next) + DUE_PREV] = prev
    if (prev !== NIL) {
      pool.writable(prev)[recordAt(prev) + DUE_NEXT] = next
      return
    }
    const bucket = page[offset + PRICE_SIDE]! >>> DUE_SHIFT
    this.#heads![bucket] = next
    if (next === NIL) this.#emptied(bucket)
  }

  /**
   * Advances the wheel by one step towards `nowSec`. Returns the slot of an order that has expired by `nowSec`; the
   * order stays in the wheel until the caller removes it. Returns NIL if no expired order is left. Returns undefined if
   * another step is needed.
   */
  step(nowSec: number): number | undefined {
    if (this.#spreading !== NIL) {
      const slot = this.#heads![this.#spreading]!
      this.remove(slot)
      this.add(slot)
      return undefined
    }
    if (this.#levels === 0) {
      if (nowSec > this.nowSec) this.#setNow(nowSec)
      return NIL
    }
    const level = lowest(this.#levels)
    const start = this.#start(level)
    if (start > nowSec) {
      // The earliest bucket in use starts after `nowSec`. So the wheel's time can move to `nowSec` without changing the
      // bucket of any order.
      if (nowSec > this.nowSec) this.#setNow(nowSec)
      return NIL
    }
    const bucket = level * 32 + lowest(this.#bits[level]!)
    if (level === 0) return this.#heads![bucket]!
    this.#setNow(start)
    this.#spreading = bucket
    return undefined
  }

  /** Returns the bucket of a second that differs from the wheel's time in a base-32 digit above the six lowest. */
  #highBucket(second: number): number {
    const high = Math.floor(second / LOW)
    return 6 * 32 + lowBucket(high, this.#nowHigh)
  }

  #emptied(bucket: number): void {
    const level = bucket >> 5
    this.#bits[level]! &= ~(1 << (bucket & 31))
    if (this.#bits[level] === 0) this.#levels &= ~(1 << level)
    if (bucket === this.#spreading) this.#spreading = NIL
  }

  /** Returns the first second of the earliest bucket that a level uses. */
  #start(level: number): number {
    const digit = lowest(this.#bits[level]!)
    if (level >= 6) {
      const shift = 5 * (level - 6)
      return (((this.#nowHigh >>> shift) & ~31) | digit) * 2 ** shift * LOW
    }
    const shift = 5 * level
    return this.#highSec + ((((this.#nowLow >>> shift) & ~31) | digit) << shift)
  }

  #setNow(nowSec: number): void {
    this.#nowHigh = Math.floor(nowSec / LOW)
    this.#highSec = this.#nowHigh * LOW
    this.#nowLow = nowSec - this.#highSec
  }
}

/** Returns the bucket of a number of up to six base-32 digits, by its highest digit that differs from `now`. */
function lowBucket(digits: number, now: number): number {
  // Bit n belongs to base-32 digit ⌊n / 5⌋. For n below 32, `(n * 13) >> 6` gives this digit.
  const level = ((31 - Math.clz32((digits ^ now) | 1)) * 13) >> 6
  return level * 32 + ((digits >>> (5 * level)) & 31)
}

function lowest(bits: number): number {
  return 31 - Math.clz32(bits & -bits)
}
