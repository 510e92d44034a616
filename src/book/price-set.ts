/**
 * An ordered set of prices. It has four tiers of bitmaps. Each bit of a tier covers 32 bits of the tier below, so the
 * next price is found in a handful of instructions. The lowest two tiers consist of pages of 1,024 prices, which are
 * allocated at the first use, so a book with few prices is small.
 */

const NO_PAGE = -1
const PAGES = 1024
const PAGE_WORDS = 32

export class PriceSet {
  /** Index of each page in `#bits` and `#summaries`; created with the first price. */
  #pages = new Int16Array(0)
  #pagesUsed = 0
  #bits = new Int32Array(0)
  /** Bit w of a page's summary is set if word w of the page's bits is not 0. */
  #summaries = new Int32Array(0)
  /** Bit b of group g is set if page 32g + b has prices. Bit g of `#top` is set if group g is not 0. */
  readonly #groups = new Int32Array(32)
  #top = 0

  add(price: number): void {
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
  }

  /** Removes a price that is in the set. */
  remove(price: number): void {
    const index = price >> 10
    const page = this.#pages[index]!
    const word = (price >> 5) & 31
    const at = page * PAGE_WORDS + word
    const bits = this.#bits[at]! & ~(1 << (price & 31))
    this.#bits[at] = bits
    if (bits !== 0) return
    this.#summaries[page]! &= ~(1 << word)
    if (this.#summaries[page] !== 0) return
    const group = index >> 5
    this.#groups[group]! &= ~(1 << (index & 31))
    if (this.#groups[group] === 0) this.#top &= ~(1 << group)
  }

  /** Returns the next lower price in the set; 0 if there is none. The given price is or was in the set. */
  below(price: number): number {
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

  /** Returns the next higher price in the set; 0 if there is none. The given price is or was in the set. */
  above(price: number): number {
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
