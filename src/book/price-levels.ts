/**
 * The prices of one side that have orders, in order, and the level of each. Four tiers of bitmaps,
 * each bit standing for 32 of the tier below, find the next price in a handful of instructions
 * wherever it is. The lowest two tiers exist only in pages of 1,024 prices where there were orders,
 * so a quiet book is small. An index finds the level of a price at one look; it may know levels
 * that have no orders just now.
 */

import * as layout from './layout.ts'
import { TagIndex } from './tag-index.ts'

const { NIL } = layout

const NO_PAGE = -1
const PAGES = 1024
const PAGE_WORDS = 32

export class PriceLevels {
  /** The best price; 0 when there is none. */
  best = 0
  /** Its level; NIL when there is none. */
  bestLevel = NIL
  readonly #bestIsHighest: boolean
  /** Which part of `#bits` and `#summaries` a page has; made with the first price. */
  #pages = new Int16Array(0)
  #pagesUsed = 0
  #bits = new Int32Array(0)
  /** Bit w of a page's summary: word w of its bits is not 0. */
  #summaries = new Int32Array(0)
  readonly #levels = new TagIndex()
  /** Bit b of group g: page 32g + b has prices. Bit g of the top: group g is not 0. */
  readonly #groups = new Int32Array(32)
  #top = 0

  constructor(bestIsHighest: boolean) {
    this.#bestIsHighest = bestIsHighest
  }

  /** The level of a price, with or without orders; NIL when it has none. */
  levelAt(price: number): number {
    return this.#levels.find(tagOfPrice(price))
  }

  /** Gives a price its level. */
  enter(price: number, level: number): void {
    this.#levels.add(tagOfPrice(price), level)
  }

  /** Takes the level from a price that has no orders. */
  forget(price: number, level: number): void {
    this.#levels.remove(tagOfPrice(price), level)
  }

  /** The level of a price has got its first order. */
  add(price: number, level: number): void {
    const index = price >> 10
    const page = this.#pageOf(index)
    const word = (price >> 5) & 31
    const at = page * PAGE_WORDS + word
    const bits = this.#bits[at]!
    if (bits === 0) {
      this.#summaries[page]! |= 1 << word
      this.#groups[index >> 5]! |= 1 << (index & 31)
      this.#top |= 1 << (index >> 5)
    }
    this.#bits[at] = bits | (1 << (price & 31))
    if (this.best === 0 || (this.#bestIsHighest ? price > this.best : price < this.best)) {
      this.best = price
      this.bestLevel = level
    }
  }

  /** The level of a price has lost its last order. */
  remove(price: number): void {
    const index = price >> 10
    const page = this.#pages[index]!
    const word = (price >> 5) & 31
    const next = price === this.best ? this.next(price) : this.best
    const at = page * PAGE_WORDS + word
    const bits = this.#bits[at]! & ~(1 << (price & 31))
    this.#bits[at] = bits
    if (bits === 0) {
      this.#summaries[page]! &= ~(1 << word)
      if (this.#summaries[page] === 0) {
        const group = index >> 5
        this.#groups[group]! &= ~(1 << (index & 31))
        if (this.#groups[group] === 0) this.#top &= ~(1 << group)
      }
    }
    if (next === this.best) return
    this.best = next
    this.bestLevel = next === 0 ? NIL : this.levelAt(next)
  }

  /** The next worse price after one that is in the set, 0 when there is none. */
  next(price: number): number {
    return this.#bestIsHighest ? this.#below(price) : this.#above(price)
  }

  #below(price: number): number {
    const index = price >> 10
    const page = this.#pages[index]!
    const word = (price >> 5) & 31
    const near = this.#bits[page * PAGE_WORDS + word]! & ((1 << (price & 31)) - 1)
    if (near !== 0) return (price & ~31) | highest(near)
    const words = this.#summaries[page]! & ((1 << word) - 1)
    if (words !== 0) return this.#highestOf(index, page, words)
    let group = index >> 5
    let pages = this.#groups[group]! & ((1 << (index & 31)) - 1)
    if (pages === 0) {
      const groups = this.#top & ((1 << group) - 1)
      if (groups === 0) return 0
      group = highest(groups)
      pages = this.#groups[group]!
    }
    const found = (group << 5) | highest(pages)
    return this.#highestOf(found, this.#pages[found]!, this.#summaries[this.#pages[found]!]!)
  }

  #above(price: number): number {
    const index = price >> 10
    const page = this.#pages[index]!
    const word = (price >> 5) & 31
    const near = this.#bits[page * PAGE_WORDS + word]! & -(2 << (price & 31))
    if (near !== 0) return (price & ~31) | lowest(near)
    const words = this.#summaries[page]! & -(2 << word)
    if (words !== 0) return this.#lowestOf(index, page, words)
    let group = index >> 5
    let pages = this.#groups[group]! & -(2 << (index & 31))
    if (pages === 0) {
      const groups = this.#top & -(2 << group)
      if (groups === 0) return 0
      group = lowest(groups)
      pages = this.#groups[group]!
    }
    const found = (group << 5) | lowest(pages)
    return this.#lowestOf(found, this.#pages[found]!, this.#summaries[this.#pages[found]!]!)
  }

  #highestOf(index: number, page: number, words: number): number {
    const word = highest(words)
    return (index << 10) | (word << 5) | highest(this.#bits[page * PAGE_WORDS + word]!)
  }

  #lowestOf(index: number, page: number, words: number): number {
    const word = lowest(words)
    return (index << 10) | (word << 5) | lowest(this.#bits[page * PAGE_WORDS + word]!)
  }

  #pageOf(index: number): number {
    if (this.#pages.length === 0) this.#pages = new Int16Array(PAGES).fill(NO_PAGE)
    if (this.#pages[index] !== NO_PAGE) return this.#pages[index]!
    if (this.#pagesUsed === this.#summaries.length) this.#enlarge()
    this.#pages[index] = this.#pagesUsed
    return this.#pagesUsed++
  }

  #enlarge(): void {
    const pages = Math.max(4, 2 * this.#pagesUsed)
    this.#bits = enlarged(this.#bits, pages * PAGE_WORDS)
    this.#summaries = enlarged(this.#summaries, pages)
  }
}

/** Different for every price, and spread well however the prices are. */
function tagOfPrice(price: number): number {
  const spread = Math.imul(price, 0x9e3779b1)
  return spread ^ (spread >>> 15)
}

function enlarged(array: Int32Array, length: number): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(length)
  larger.set(array)
  return larger
}

function highest(bits: number): number {
  return 31 - Math.clz32(bits)
}

function lowest(bits: number): number {
  return 31 - Math.clz32(bits & -bits)
}
