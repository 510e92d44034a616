/**
 * A book that the client builds from a snapshot and later deltas. The client can verify the book: its
 * checksum equals the checksum of the exchange's book after the same message.
 */

import type { Level } from './answers.ts'
import { crc32 } from './crc32.ts'

/** A level as the stream sends it. A size beyond 2^53 is decimal text, to avoid rounding. */
export type LevelPair = readonly [price: number, size: number | string]

const CHECKSUM_LEVELS = 10

export class LocalBook {
  readonly #bids = new Side(true)
  readonly #asks = new Side(false)
  /** Sequence number of the market's newest change. */
  seq = 0

  /** Returns the bids, the best first. */
  bids(count?: number): Level[] {
    return this.#bids.levels(count)
  }

  /** Returns the asks, the best first. */
  asks(count?: number): Level[] {
    return this.#asks.levels(count)
  }

  load(seq: number, bids: readonly LevelPair[], asks: readonly LevelPair[]): void {
    this.#bids.clear()
    this.#asks.clear()
    this.apply(seq, bids, asks)
  }

  /** Sets the total size of each changed level; a size of 0 removes the level. */
  apply(seq: number, bids: readonly LevelPair[], asks: readonly LevelPair[]): void {
    for (const [price, size] of bids) this.#bids.set(price, BigInt(size))
    for (const [price, size] of asks) this.#asks.set(price, BigInt(size))
    this.seq = seq
  }

  checksum(): number {
    const text = (levels: readonly Level[]): string =>
      levels.map(({ price, size }) => `${price}:${size}`).join(',')
    return crc32(`${text(this.bids(CHECKSUM_LEVELS))}|${text(this.asks(CHECKSUM_LEVELS))}`)
  }
}

/**
 * One side of a book. Prices are sorted with the best price last. Most changes happen near the best price, and changes
 * at the end of an array are cheap.
 */
class Side {
  readonly #descending: boolean
  readonly #prices: number[] = []
  readonly #sizes = new Map<number, bigint>()

  constructor(descending: boolean) {
    this.#descending = descending
  }

  clear(): void {
    this.#prices.length = 0
    this.#sizes.clear()
  }

  set(price: number, size: bigint): void {
    const known = this.#sizes.has(price)
    if (size === 0n) {
      if (!known) return
      this.#sizes.delete(price)
      this.#prices.splice(this.#position(price), 1)
      return
    }
    this.#sizes.set(price, size)
    if (!known) this.#prices.splice(this.#position(price), 0, price)
  }

  levels(count = this.#prices.length): Level[] {
    const levels: Level[] = []
    const end = Math.max(0, this.#prices.length - count)
    for (let at = this.#prices.length - 1; at >= end; at--) {
      const price = this.#prices[at]!
      levels.push({ price, size: this.#sizes.get(price)! })
    }
    return levels
  }

  #position(price: number): number {
    let low = 0
    let high = this.#prices.length
    while (low < high) {
      const middle = (low + high) >>> 1
      const at = this.#prices[middle]!
      if (this.#descending ? at < price : at > price) low = middle + 1
      else high = middle
    }
    return low
  }
}
