/**
 * A Bloom filter for a run of closed orders (a sorted file): twelve bits per order exclude nearly every hash that is
 * not in the run. All bits of a hash are in one block of 64 bytes, so a lookup in a filter on disk reads one page.
 *
 * Hashes are mixed with secrets of the run, so no trader can choose hashes that pass the filter.
 */

import assert from 'node:assert/strict'

/** Sizes of a block and of a page in 32-bit words. Each page has its own checksum. */
const BLOCK_WORDS = 16
export const FILTER_PAGE_WORDS = 1_024
export const FILTER_PAGE_BYTES = 4 * FILTER_PAGE_WORDS
const BITS_PER_ORDER = 12
/** Maximum number of times that `shrunkFilter` halves a filter. A halved filter still consists of whole pages. */
const HALVINGS = 3

/** The eight 32-bit words of an order's hash, in the byte order of this machine. */
type HashWords = Int32Array

export type FilterSeeds = readonly [number, number]

/** Returns the size, in 32-bit words, of a filter for about this many orders. */
export function filterWordsFor(orders: number): number {
  const unit = FILTER_PAGE_WORDS << HALVINGS
  return unit * Math.max(1, Math.ceil((orders * BITS_PER_ORDER) / (32 * unit)))
}

export function addToFilter(filter: Uint32Array, hash: HashWords, seeds: FilterSeeds): void {
  const at = blockOf(hash, filter.length, seeds)
  const [first, second] = bitsOf(hash, seeds)
  for (let shift = 0; shift < 27; shift += 9) {
    setBit(filter, at, (first >>> shift) & 511)
    setBit(filter, at, (second >>> shift) & 511)
  }
}

function setBit(filter: Uint32Array, at: number, bit: number): void {
  filter[at + (bit >>> 5)]! |= 1 << (bit & 31)
}

/** Returns the index of the first word of the hash's block, in a filter of `words` words. */
export function blockOf(hash: HashWords, words: number, seeds: FilterSeeds): number {
  return Math.floor((mix(hash[2]!, seeds[0]) / 2 ** 32) * (words / BLOCK_WORDS)) * BLOCK_WORDS
}

/** Returns whether the block that begins at word `at` may contain the hash. */
export function blockMayHold(
  words: Uint32Array,
  at: number,
  hash: HashWords,
  seeds: FilterSeeds,
): boolean {
  const first = mix(hash[3]!, seeds[1])
  if (!hasThree(words, at, first)) return false
  return hasThree(words, at, mix(hash[4]!, seeds[0] ^ seeds[1]))
}

function hasThree(words: Uint32Array, at: number, bits: number): boolean {
  for (let shift = 0; shift < 27; shift += 9) {
    const bit = (bits >>> shift) & 511
    if (((words[at + (bit >>> 5)]! >>> (bit & 31)) & 1) === 0) return false
  }
  return true
}

function bitsOf(hash: HashWords, seeds: FilterSeeds): [number, number] {
  return [mix(hash[3]!, seeds[1]), mix(hash[4]!, seeds[0] ^ seeds[1])]
}

function mix(word: number, seed: number): number {
  let mixed = Math.imul(word ^ seed, 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  mixed = Math.imul(mixed ^ (mixed >>> 16) ^ seed, 0x9e3779b1)
  return (mixed ^ (mixed >>> 15)) >>> 0
}

/** Shrinks a filter that was sized for more orders than it has, by merging neighbouring blocks. */
export function shrunkFilter(filter: Uint32Array, orders: number): Uint32Array {
  let shrunk = filter
  for (let times = 0; times < HALVINGS; times++) {
    const half = shrunk.length / 2
    if (half * 32 < orders * BITS_PER_ORDER) break
    const halved = new Uint32Array(half)
    for (let at = 0; at < shrunk.length; at++) {
      const block = Math.floor(at / (2 * BLOCK_WORDS))
      halved[block * BLOCK_WORDS + (at % BLOCK_WORDS)]! |= shrunk[at]!
    }
    shrunk = halved
  }
  assert(shrunk.length % FILTER_PAGE_WORDS === 0, 'a filter must consist of whole pages')
  return shrunk
}
