/**
 * A run: closed orders in a file that never changes, sorted by hash. Its filter and the first hash of each
 * block stay in memory: less than two bytes per order.
 *
 *   blocks of 64 orders | pages of the filter | for each block: first 8 bytes of its first hash, checksum
 *   | for each page of the filter: checksum                       (numbers of the index big-endian)
 *
 * The table `closed_runs` of the partition has the `RunMeta` of each run; a file that does not match it is
 * refused. Blocks are checked when they are read.
 */

import assert from 'node:assert/strict'
import {
  closeSync,
  fdatasyncSync,
  fstatSync,
  fsyncSync,
  openSync,
  readSync,
  writeSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { syncFolder } from '../log-folder.ts'
import { corrupt, type RowHome, rowCrc } from '../partition/record.ts'
import {
  addToFilter,
  blockMayHold,
  blockOf,
  FILTER_PAGE_BYTES,
  FILTER_PAGE_WORDS,
  type FilterSeeds,
  filterWordsFor,
  shrunkFilter,
} from './closed-filter.ts'
import { CLOSED_ORDER_BYTES, type HashKey, hashKeyAt } from './closed-order.ts'

const BLOCK_ORDERS = 64
const BLOCK_BYTES = BLOCK_ORDERS * CLOSED_ORDER_BYTES
const FENCE_BYTES = 12
/**
 * The file is synced whenever this many bytes were written. Otherwise a commit of the log would have to wait for many
 * pending bytes of this file.
 */
const SYNCED_BYTES = 1024 * 1024

export type RunMeta = {
  /** File name in the folder of runs. */
  readonly name: string
  /** Level of the run: 0 if its orders came from the table, and one more after each merge of several runs. */
  readonly level: number
  readonly orders: number
  readonly filterWords: number
  readonly seeds: FilterSeeds
  /** Checksum of the index, which contains the checksums of all other parts of the file. */
  readonly indexCrc: number
  /** Distribution of the orders' `forgetAfterSec` in Unix seconds: minimum, evenly spaced quantiles, maximum. */
  readonly forgetAfterSec: readonly number[]
}

function blocksOf({ orders }: Pick<RunMeta, 'orders'>): number {
  return Math.ceil(orders / BLOCK_ORDERS)
}

function pagesOf({ filterWords }: Pick<RunMeta, 'filterWords'>): number {
  return filterWords / FILTER_PAGE_WORDS
}

function blockCrc(home: RowHome, name: string, block: number, bytes: Buffer): number {
  return rowCrc('closed run block', home, [name, block], bytes)
}

function indexCrc(home: RowHome, meta: Omit<RunMeta, 'indexCrc'>, index: Buffer): number {
  const { name, orders, filterWords, seeds } = meta
  return rowCrc('closed run', home, [name, orders, filterWords, ...seeds], index)
}

export class ClosedRun {
  readonly meta: RunMeta
  readonly #path: string
  readonly #home: RowHome
  readonly #file: number
  readonly #highs: Uint32Array
  readonly #lows: Uint32Array
  readonly #crcs: Uint32Array
  readonly #pageCrcs: Uint32Array
  /** The whole filter; undefined if its pages are read on demand. */
  #filter: Uint32Array | undefined
  readonly #page = new Uint32Array(FILTER_PAGE_WORDS)

  constructor(
    path: string,
    home: RowHome,
    meta: RunMeta,
    { keepsFilter }: { readonly keepsFilter: boolean },
  ) {
    this.#path = path
    this.#home = home
    this.meta = meta
    const blocks = blocksOf(meta)
    const pages = pagesOf(meta)
    this.#highs = new Uint32Array(blocks)
    this.#lows = new Uint32Array(blocks)
    this.#crcs = new Uint32Array(blocks)
    this.#pageCrcs = new Uint32Array(pages)
    this.#file = openRun(path)
    try {
      const index = Buffer.allocUnsafe(FENCE_BYTES * blocks + 4 * pages)
      const indexAt = meta.orders * CLOSED_ORDER_BYTES + 4 * meta.filterWords
      if (fstatSync(this.#file).size !== indexAt + index.length) throw this.#damaged('its length')
      readSync(this.#file, index, 0, index.length, indexAt)
      if (indexCrc(home, meta, index) !== meta.indexCrc) throw this.#damaged('its index')
      for (let block = 0; block < blocks; block++) {
        this.#highs[block] = index.readUInt32BE(FENCE_BYTES * block)
        this.#lows[block] = index.readUInt32BE(FENCE_BYTES * block + 4)
        this.#crcs[block] = index.readUInt32BE(FENCE_BYTES * block + 8)
      }
      for (let page = 0; page < pages; page++) {
        this.#pageCrcs[page] = index.readUInt32BE(FENCE_BYTES * blocks + 4 * page)
      }
      if (keepsFilter) {
        const filter = new Uint32Array(meta.filterWords)
        for (let page = 0; page < pages; page++) this.#readPage(page, filter, page)
        this.#filter = filter
      }
    } catch (error) {
      closeSync(this.#file)
      throw error
    }
  }

  close(): void {
    closeSync(this.#file)
  }

  /** Bytes of memory that the run's filter uses. */
  get filterBytes(): number {
    return this.#filter === undefined ? 0 : 4 * this.#filter.length
  }

  get memoryBytes(): number {
    return FENCE_BYTES * this.blocks + 4 * this.#pageCrcs.length + this.filterBytes
  }

  /** Frees the memory of the filter; its pages are read from disk on demand from now on. */
  leaveFilter(): void {
    this.#filter = undefined
  }

  get blocks(): number {
    return this.#crcs.length
  }

  /**
   * Returns the bytes of the order with this hash, as a view into its block; undefined if the run does not have the
   * order.
   */
  find(key: HashKey): Buffer | undefined {
    if (!this.#mayHold(key)) return undefined
    const high = key.bytes.readUInt32BE(0)
    const low = key.bytes.readUInt32BE(4)
    let block = this.#lastAtMost(high, low)
    if (block < 0) return undefined
    // Several hashes may share their first eight bytes, even across blocks. So begin before the first block that starts
    // with these bytes.
    while (block > 0 && this.#highs[block] === high && this.#lows[block] === low) block--
    for (; block < this.blocks; block++) {
      if (!isAtMost(this.#highs[block]!, this.#lows[block]!, high, low)) return undefined
      const bytes = this.block(block)
      for (let at = 0; at < bytes.length; at += CLOSED_ORDER_BYTES) {
        if (bytes.readUInt32BE(at) === high && key.bytes.compare(bytes, at, at + 32) === 0) {
          return bytes.subarray(at, at + CLOSED_ORDER_BYTES)
        }
      }
    }
    return undefined
  }

  /** Returns the orders of a block after checking them. */
  block(block: number): Buffer {
    const at = block * BLOCK_BYTES
    const bytes = Buffer.allocUnsafe(
      Math.min(BLOCK_BYTES, this.meta.orders * CLOSED_ORDER_BYTES - at),
    )
    const length = readSync(this.#file, bytes, 0, bytes.length, at)
    if (
      length !== bytes.length ||
      blockCrc(this.#home, this.meta.name, block, bytes) !== this.#crcs[block]
    ) {
      throw this.#damaged(`block ${block}`)
    }
    return bytes
  }

  /** Reads the whole run; throws if it is damaged. */
  check(): void {
    for (let block = 0; block < this.blocks; block++) this.block(block)
    for (let page = 0; page < this.#pageCrcs.length; page++) this.#readPage(page, this.#page, 0)
  }

  #mayHold({ words }: HashKey): boolean {
    const { filterWords, seeds } = this.meta
    const at = blockOf(words, filterWords, seeds)
    if (this.#filter !== undefined) return blockMayHold(this.#filter, at, words, seeds)
    this.#readPage(Math.floor(at / FILTER_PAGE_WORDS), this.#page, 0)
    return blockMayHold(this.#page, at % FILTER_PAGE_WORDS, words, seeds)
  }

  #readPage(page: number, into: Uint32Array, place: number): void {
    const bytes = Buffer.from(into.buffer, place * FILTER_PAGE_BYTES, FILTER_PAGE_BYTES)
    const at = this.meta.orders * CLOSED_ORDER_BYTES + page * FILTER_PAGE_BYTES
    readSync(this.#file, bytes, 0, FILTER_PAGE_BYTES, at)
    if (pageCrc(this.#home, this.meta.name, page, bytes) !== this.#pageCrcs[page]) {
      throw this.#damaged(`page ${page} of its filter`)
    }
  }

  /** Returns the last block whose first hash is not above these eight bytes; -1 if there is none. */
  #lastAtMost(high: number, low: number): number {
    let from = 0
    let to = this.blocks
    while (from < to) {
      const middle = (from + to) >>> 1
      if (isAtMost(this.#highs[middle]!, this.#lows[middle]!, high, low)) from = middle + 1
      else to = middle
    }
    return from - 1
  }

  #damaged(what: string) {
    return corrupt(
      `${this.#path}: ${what} is damaged; restore all files of the partition from the same backup`,
    )
  }
}

function isAtMost(high: number, low: number, otherHigh: number, otherLow: number): boolean {
  return high < otherHigh || (high === otherHigh && low <= otherLow)
}

function pageCrc(home: RowHome, name: string, page: number, bytes: Buffer): number {
  return rowCrc('closed run filter', home, [name, page], bytes)
}

function openRun(path: string): number {
  try {
    return openSync(path, 'r')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    throw corrupt(
      `${path} is missing; restore all files of the partition from the same backup`,
      error,
    )
  }
}

/** Writes a run from orders sorted by hash. After `end` the file is durable under its final name. */
export class RunWriter {
  readonly #path: string
  readonly #home: RowHome
  readonly #about: Pick<RunMeta, 'name' | 'level' | 'seeds'>
  readonly #file: number
  readonly #filter: Uint32Array
  readonly #fences: Buffer[] = []
  readonly #times = new Sample()
  readonly #block = Buffer.allocUnsafe(BLOCK_BYTES)
  #filled = 0
  #orders = 0
  #bytes = 0
  #unsynced = 0

  constructor(
    path: string,
    home: RowHome,
    about: Pick<RunMeta, 'name' | 'level' | 'seeds'>,
    ordersMax: number,
  ) {
    this.#path = path
    this.#home = home
    this.#about = about
    this.#filter = new Uint32Array(filterWordsFor(ordersMax))
    this.#file = openSync(path, 'wx')
  }

  get orders(): number {
    return this.#orders
  }

  add(bytes: Buffer, at: number, forgetAfterSec: number): void {
    bytes.copy(this.#block, this.#filled, at, at + CLOSED_ORDER_BYTES)
    addToFilter(this.#filter, hashKeyAt(bytes, at).words, this.#about.seeds)
    this.#times.add(forgetAfterSec)
    this.#filled += CLOSED_ORDER_BYTES
    this.#orders++
    if (this.#filled === BLOCK_BYTES) this.#endBlock()
  }

  /** Completes the file. If this throws, the file is still open: call `abort` to close it. */
  end(): RunMeta {
    assert(this.#orders > 0, 'a run has orders')
    if (this.#filled > 0) this.#endBlock()
    const { name } = this.#about
    const filter = shrunkFilter(this.#filter, this.#orders)
    const pageCrcs = Buffer.allocUnsafe(4 * (filter.length / FILTER_PAGE_WORDS))
    for (let page = 0; page < filter.length / FILTER_PAGE_WORDS; page++) {
      const bytes = Buffer.from(filter.buffer, page * FILTER_PAGE_BYTES, FILTER_PAGE_BYTES)
      pageCrcs.writeUInt32BE(pageCrc(this.#home, name, page, bytes), 4 * page)
      this.#write(bytes)
    }
    const index = Buffer.concat([...this.#fences, pageCrcs])
    this.#write(index)
    fsyncSync(this.#file)
    syncFolder(dirname(this.#path))
    closeSync(this.#file)
    const meta = {
      ...this.#about,
      orders: this.#orders,
      filterWords: filter.length,
      forgetAfterSec: this.#times.evenly(),
    }
    return { ...meta, indexCrc: indexCrc(this.#home, meta, index) }
  }

  abort(): void {
    closeSync(this.#file)
  }

  #endBlock(): void {
    const bytes = this.#block.subarray(0, this.#filled)
    const fence = Buffer.allocUnsafe(FENCE_BYTES)
    bytes.copy(fence, 0, 0, 8)
    const block = this.#fences.length
    fence.writeUInt32BE(blockCrc(this.#home, this.#about.name, block, bytes), 8)
    this.#fences.push(fence)
    this.#write(bytes)
    this.#filled = 0
  }

  #write(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) {
      at += writeSync(this.#file, bytes, at, bytes.length - at, this.#bytes + at)
    }
    this.#bytes += bytes.length
    this.#unsynced += bytes.length
    if (this.#unsynced < SYNCED_BYTES) return
    fdatasyncSync(this.#file)
    this.#unsynced = 0
  }
}

const EVENLY = 17
const SAMPLED_MAX = 4_096

/** Collects an evenly spaced sample of many values, with their minimum and maximum. */
class Sample {
  #values: number[] = []
  #every = 1
  #seen = 0
  #least = Number.MAX_SAFE_INTEGER
  #greatest = 0

  add(value: number): void {
    this.#least = Math.min(this.#least, value)
    this.#greatest = Math.max(this.#greatest, value)
    if (this.#seen++ % this.#every !== 0) return
    this.#values.push(value)
    if (this.#values.length < SAMPLED_MAX) return
    this.#values = this.#values.filter((_, index) => index % 2 === 0)
    this.#every *= 2
  }

  /** Returns the minimum of the values, evenly spaced quantiles, and the maximum. */
  evenly(): number[] {
    const sorted = Float64Array.from(this.#values).sort()
    const places = Array.from({ length: EVENLY - 2 }, (_, index) => (index + 1) / (EVENLY - 1))
    const between = places.map((place) => sorted[Math.floor(place * (sorted.length - 1))]!)
    return [this.#least, ...between, this.#greatest]
  }
}
