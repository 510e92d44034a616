/**
 * The levels of one side, found by their price or from the best on. An index finds the level of a
 * price at one look. A level that has lost its orders is kept, because its price is likely to come
 * again, and stays in the set of prices too until a search for the next best meets it: a market
 * whose orders come and go at the same prices then changes neither.
 */

import * as layout from './layout.ts'
import { levelAt, openLevel } from './level.ts'
import { PriceSet } from './price-set.ts'
import type { RecordPool } from './record-pool.ts'
import { TagIndex } from './tag-index.ts'

const { NIL, LEVEL_KEY, LEVEL_KEY_MASK, LISTED, COUNT } = layout

/** While a book has no more levels than these, those without orders are kept. */
const LEVELS_KEPT = 16_384

export class PriceLevels {
  /** The best price that has orders; 0 when there is none. */
  best = 0
  /** Its level; NIL when there is none. */
  bestLevel: number = NIL
  readonly #bestIsHighest: boolean
  readonly #levels: RecordPool
  readonly #byPrice = new TagIndex()
  /** The prices whose level is marked as listed: all that have orders and some that had. */
  readonly #listed = new PriceSet()

  /** Levels of both sides may lie in one pool. */
  constructor(levels: RecordPool, bestIsHighest: boolean) {
    this.#levels = levels
    this.#bestIsHighest = bestIsHighest
  }

  /** The level of a price, with or without orders; NIL when it has none. */
  levelAt(price: number): number {
    return this.#byPrice.find(tagOfPrice(price))
  }

  /** The level of a price, made with this key if need be. */
  levelOf(price: number, key: number): number {
    const known = this.levelAt(price)
    if (known !== NIL) return known
    const level = openLevel(this.#levels, key)
    this.#byPrice.add(tagOfPrice(price), level)
    return level
  }

  /** The level of a price has got its first order. */
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

  /** The level of a price has lost its last order. */
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

  /** The next worse price that has orders, 0 when there is none. */
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

/** Different for every price, and spread well however the prices are. */
function tagOfPrice(price: number): number {
  const spread = Math.imul(price, 0x9e3779b1)
  return spread ^ (spread >>> 15)
}
