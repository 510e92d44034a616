/**
 * The prices of one side that have orders, and which level each one is. Four tiers of bitmaps, each
 * bit standing for 32 of the tier below, find the next price in a handful of instructions wherever
 * it is; pages of 1,024 prices exist only where there are orders, so an empty side costs nothing.
 */

import { NIL } from './record-pool.ts'

class Page {
  summary = 0
  readonly bits = new Int32Array(32)
  readonly levels = new Int32Array(1024).fill(NIL)
}

export class PriceLadder {
  /** The best price; 0 when the side is empty. */
  best = 0
  readonly #bestIsHighest: boolean
  #pages: (Page | undefined)[] = []
  /** Bit b of word a: page 32a + b has prices. Bit a of the summary: word a is not 0. */
  readonly #pageBits = new Int32Array(32)
  #pageSummary = 0
  #spare: Page | undefined

  constructor(bestIsHighest: boolean) {
    this.#bestIsHighest = bestIsHighest
  }

  /** The level at the price, NIL when there is none. */
  at(price: number): number {
    const page = this.#pages[price >> 10]
    return page === undefined ? NIL : page.levels[price & 1023]!
  }

  put(price: number, level: number): void {
    const page = this.#pages[price >> 10] ?? this.#addPage(price >> 10)
    const word = (price >> 5) & 31
    page.levels[price & 1023] = level
    page.bits[word]! |= 1 << (price & 31)
    page.summary |= 1 << word
    if (this.best === 0 || (this.#bestIsHighest ? price > this.best : price < this.best)) {
      this.best = price
    }
  }

  drop(price: number): void {
    const page = this.#pages[price >> 10]!
    const word = (price >> 5) & 31
    if (price === this.best) this.best = this.next(price)
    page.levels[price & 1023] = NIL
    page.bits[word]! &= ~(1 << (price & 31))
    if (page.bits[word] !== 0) return
    page.summary &= ~(1 << word)
    if (page.summary === 0) this.#dropPage(price >> 10, page)
  }

  /** The next worse price after this one, 0 when there is none. */
  next(price: number): number {
    return this.#bestIsHighest ? this.#below(price) : this.#above(price)
  }

  #below(price: number): number {
    const index = price >> 10
    const page = this.#pages[index]
    if (page !== undefined) {
      const word = (price >> 5) & 31
      const near = page.bits[word]! & ((1 << (price & 31)) - 1)
      if (near !== 0) return (price & ~31) | highest(near)
      const words = page.summary & ((1 << word) - 1)
      if (words !== 0) return (index << 10) | highestOf(page, words)
    }
    let group = index >> 5
    let pages = this.#pageBits[group]! & ((1 << (index & 31)) - 1)
    if (pages === 0) {
      const groups = this.#pageSummary & ((1 << group) - 1)
      if (groups === 0) return 0
      group = highest(groups)
      pages = this.#pageBits[group]!
    }
    const found = (group << 5) | highest(pages)
    const far = this.#pages[found]!
    return (found << 10) | highestOf(far, far.summary)
  }

  #above(price: number): number {
    const index = price >> 10
    const page = this.#pages[index]
    if (page !== undefined) {
      const word = (price >> 5) & 31
      const near = page.bits[word]! & -(2 << (price & 31))
      if (near !== 0) return (price & ~31) | lowest(near)
      const words = page.summary & -(2 << word)
      if (words !== 0) return (index << 10) | lowestOf(page, words)
    }
    let group = index >> 5
    let pages = this.#pageBits[group]! & -(2 << (index & 31))
    if (pages === 0) {
      const groups = this.#pageSummary & -(2 << group)
      if (groups === 0) return 0
      group = lowest(groups)
      pages = this.#pageBits[group]!
    }
    const found = (group << 5) | lowest(pages)
    const far = this.#pages[found]!
    return (found << 10) | lowestOf(far, far.summary)
  }

  #addPage(index: number): Page {
    const page = this.#spare ?? new Page()
    this.#spare = undefined
    // Filled up to the index, so that the array keeps its elements in one piece.
    while (this.#pages.length <= index) this.#pages.push(undefined)
    this.#pages[index] = page
    this.#pageBits[index >> 5]! |= 1 << (index & 31)
    this.#pageSummary |= 1 << (index >> 5)
    return page
  }

  #dropPage(index: number, page: Page): void {
    this.#pages[index] = undefined
    // One empty page is kept, for a price that comes and goes.
    this.#spare = page
    this.#pageBits[index >> 5]! &= ~(1 << (index & 31))
    if (this.#pageBits[index >> 5] === 0) this.#pageSummary &= ~(1 << (index >> 5))
  }
}

function highest(bits: number): number {
  return 31 - Math.clz32(bits)
}

function lowest(bits: number): number {
  return 31 - Math.clz32(bits & -bits)
}

function highestOf(page: Page, words: number): number {
  const word = highest(words)
  return (word << 5) | highest(page.bits[word]!)
}

function lowestOf(page: Page, words: number): number {
  const word = lowest(words)
  return (word << 5) | lowest(page.bits[word]!)
}
