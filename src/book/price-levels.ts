/**
 * The levels of one side of a book. An index finds the level of a price in one lookup, and an ordered set finds the
 * next best price. A level without orders is kept, because orders will probably use its price again. The price stays in
 * the ordered set until a search for the next best price finds the level empty. So orders that come and go at the same
 * prices change neither the index nor the set.
 */

import * as layout from './layout.ts'
import { levelAt, openLevel } from './level.ts'
import { PriceSet } from './price-set.ts'
import type { RecordPool } from './record-pool.ts'
import { TagIndex } from './tag-index.ts'

const { NIL, LEVEL_KEY, LEVEL_KEY_MASK, LISTED, COUNT } = layout

/** If a book has more levels than this, levels that become empty are freed. */
const LEVELS_KEPT = 16_384

export class PriceLevels {
  /** Best price with orders; 0 if there is none. */
  best = 0
  /** Level of the best price; NIL if there is none. */
  bestLevel: number = NIL
  readonly #bestIsHighest: boolean
  readonly #levels: RecordPool
  readonly #byPrice = new TagIndex()
  /** Prices in the ordered set of this side: all prices with orders, and some without. */
  readonly #listed = new PriceSet()

  /** Both sides may share one pool of levels. */
  constructor(levels: RecordPool, bestIsHighest: boolean) {
    this.#levels = levels
    this.#bestIsHighest = bestIsHighest
  }

  /** Returns the level of a price, with or without orders; NIL if there is none. */
  levelAt(price: number): number {
    return this.#byPrice.find(tagOfPrice(price))
  }

  /** Returns the level of a price. If there is none, creates a level with this key. */
  levelOf(price: number, key: number): number {
    const known = this.levelAt(price)
    if (known !== NIL) return known
    const level = openLevel(this.#levels, key)
    this.#byPrice.add(tagOfPrice(price), level)
    return level
  }

  /**
   * Adds the price to the set, and updates the best price. Call it when an empty level has received its first order.
   */
  filled(price: number, level: number): void {
    const page = this.#levels.page(level)
    const at = levelAt(level) + LEVEL_KEY
    const key = page[at]!
    if ((key & LISTED) === 0) {
      page[at] = key | LISTED
      this.#listed.add(price)
    }
    if (this.best === 0 || (this.#bestIsHighest ? price > this.best : price < this.best)) {
      this.best = price
      this.bestLevel = level
    }
  }

  /**
   * Updates the best price. Frees the level if the book has more than `LEVELS_KEPT` levels. Call it when a level has
   * lost its last order.
   */
  emptied(price: number, level: number): void {
    if (price === this.best) {
      this.best = this.next(price)
      this.bestLevel = this.best === 0 ? NIL : this.levelAt(this.best)
    }
    if (this.#levels.live <= LEVELS_KEPT) return
    this.#unlist(price, level)
    this.#byPrice.remove(tagOfPrice(price), level)
    this.#levels.free(level)
  }

  /** Returns the next worse price with orders; 0 if there is none. */
  next(price: number): number {
    for (let next = this.#nextListed(price); next !== 0; next = this.#nextListed(next)) {
      const level = this.levelAt(next)
      if (this.#levels.page(level)[levelAt(level) + COUNT] !== 0) return next
      this.#unlist(next, level)
    }
    return 0
  }

  #nextListed(price: number): number {
    return this.#bestIsHighest ? this.#listed.below(price) : this.#listed.above(price)
  }

  #unlist(price: number, level: number): void {
    this.#levels.page(level)[levelAt(level) + LEVEL_KEY]! &= LEVEL_KEY_MASK
    this.#listed.remove(price)
  }
}

/** Returns the key of a price in the index: unique for every price, and spread evenly for any pattern of prices. */
function tagOfPrice(price: number): number {
  const spread = Math.imul(price, 0x9e3779b1)
  return spread ^ (spread >>> 15)
}
