/**
 * Levels of one outcome's book: each price with its total size, best price first. Events update the totals; single
 * orders are not stored. Totals are exact: above the safe integers, a total is a bigint instead of a number.
 */

import assert from 'node:assert/strict'
import { BUY, type Side } from '#domain/order.ts'

type Total = number | bigint
export type ShownLevel = readonly [price: number, total: Total]

export class LevelBook {
  /** A side is created with its first level, because most markets have no orders. */
  #bids: Levels | undefined
  #asks: Levels | undefined

  add(side: Side, price: number, size: number): void {
    this.#made(side).change(price, size)
  }

  take(side: Side, price: number, size: number): void {
    this.#made(side).change(price, -size)
  }

  /** Adds an amount to the total of a level. The amount may exceed the safe integers. */
  raise(side: Side, price: number, total: Total): void {
    const levels = this.#made(side)
    levels.set(price, plus(levels.total(price), total))
  }

  clear(): void {
    this.#bids = undefined
    this.#asks = undefined
  }

  /** Loads whole levels from a market's view. */
  load(side: Side, levels: readonly ShownLevel[]): void {
    for (const [price, total] of levels) this.#made(side).set(price, total)
  }

  /** Returns the best `count` levels, or all levels if `count` is undefined, best first. */
  levels(side: Side, count?: number): ShownLevel[] {
    return this.#of(side)?.list(count) ?? []
  }

  /** Number of price levels of both sides. */
  get levelCount(): number {
    return (this.#bids?.count ?? 0) + (this.#asks?.count ?? 0)
  }

  /** Returns the total size at the price; 0 if the side has no level at that price. */
  total(side: Side, price: number): Total {
    return this.#of(side)?.total(price) ?? 0
  }

  /**
   * Returns the price of the last of the best `count` levels of a side. Returns undefined if the side has no further,
   * worse level.
   */
  edge(side: Side, count: number): number | undefined {
    return this.#of(side)?.edge(count)
  }

  /**
   * Returns the levels that are worse than `price`, from the best to the worst, up to and including the price
   * `until`. Without `until`, returns all worse levels.
   */
  worseThan(side: Side, price: number, until?: number): ShownLevel[] {
    return this.#of(side)?.worseThan(price, until) ?? []
  }

  /** Returns the best price of a side; 0 if it is empty. */
  best(side: Side): number {
    return this.#of(side)?.best ?? 0
  }

  #of(side: Side): Levels | undefined {
    return side === BUY ? this.#bids : this.#asks
  }

  #made(side: Side): Levels {
    if (side === BUY) {
      this.#bids ??= new Levels(true)
      return this.#bids
    }
    this.#asks ??= new Levels(false)
    return this.#asks
  }

  get bestAsk(): number {
    return this.best(1)
  }
}

/**
 * One side of a book. The best price is last in the array of prices: most changes are near it, and changes near the end
 * of an array are cheap.
 */
class Levels {
  readonly #descending: boolean
  readonly #prices: number[] = []
  readonly #totals = new Map<number, Total>()

  constructor(descending: boolean) {
    this.#descending = descending
  }

  get best(): number {
    return this.#prices.at(-1) ?? 0
  }

  get count(): number {
    return this.#prices.length
  }

  change(price: number, by: number): void {
    this.set(price, plus(this.#totals.get(price) ?? 0, by))
  }

  set(price: number, total: Total): void {
    assert(total >= 0, `the total at the price ${price} must not be negative`)
    const known = this.#totals.has(price)
    if (total === 0 || total === 0n) {
      if (!known) return
      this.#totals.delete(price)
      this.#prices.splice(this.#position(price), 1)
      return
    }
    this.#totals.set(price, total)
    if (!known) this.#prices.splice(this.#position(price), 0, price)
  }

  total(price: number): Total {
    return this.#totals.get(price) ?? 0
  }

  list(count = this.#prices.length): ShownLevel[] {
    const list: ShownLevel[] = []
    const end = Math.max(0, this.#prices.length - count)
    for (let index = this.#prices.length - 1; index >= end; index--) {
      const price = this.#prices[index] ?? 0
      list.push([price, this.#totals.get(price) ?? 0])
    }
    return list
  }

  edge(count: number): number | undefined {
    const { length } = this.#prices
    return length > count ? this.#prices[length - count] : undefined
  }

  worseThan(price: number, until?: number): ShownLevel[] {
    const list: ShownLevel[] = []
    const end = until === undefined ? 0 : this.#position(until)
    for (let index = this.#position(price) - 1; index >= end; index--) {
      const worse = this.#prices[index] ?? 0
      list.push([worse, this.total(worse)])
    }
    return list
  }

  /** Returns the index of the price, or the index at which it would be inserted. */
  #position(price: number): number {
    let low = 0
    let high = this.#prices.length
    while (low < high) {
      const middle = (low + high) >>> 1
      const at = this.#prices[middle] ?? 0
      const before = this.#descending ? at < price : at > price
      if (before) low = middle + 1
      else high = middle
    }
    return low
  }
}

function plus(a: Total, b: Total): Total {
  if (typeof a === 'number' && typeof b === 'number') {
    const sum = a + b
    if (Number.isSafeInteger(sum)) return sum
  }
  const sum = BigInt(a) + BigInt(b)
  return sum <= Number.MAX_SAFE_INTEGER ? Number(sum) : sum
}

/** Merges one side's levels of both outcomes by price. */
export function mergedLevels(books: readonly LevelBook[], side: Side): ShownLevel[] {
  const totals = new Map<number, Total>()
  for (const book of books) {
    for (const [price, total] of book.levels(side)) {
      totals.set(price, plus(totals.get(price) ?? 0, total))
    }
  }
  const worseFirst = side === BUY ? -1 : 1
  return [...totals].sort(([a], [b]) => (a - b) * worseFirst)
}
