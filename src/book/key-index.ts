/**
 * Finds the record of a key: an extendible hash table over a pool whose records begin with their
 * key. It grows by splitting one small segment at a time, so no insertion ever moves more than a
 * few thousand entries, however many orders rest.
 *
 * The tags are mixed with a seed that the caller chooses. Order hashes are chosen by traders, and
 * without a seed a patient one could have all of his fall into one place.
 */

import { NIL, type RecordPool } from './record-pool.ts'

const SEGMENT_CELLS_MIN = 8
const SEGMENT_CELLS_MAX = 4096
const DEPTH_MAX = 16

type Segment = {
  /** How many leading bits of a tag all entries share. */
  depth: number
  count: number
  mask: number
  /** Tag and slot + 1 of each cell; a cell with slot 0 is empty. */
  cells: Int32Array
}

export class KeyIndex {
  readonly #pool: RecordPool
  readonly #keyWords: number
  readonly #seed: number
  #depth = 0
  #directory: Segment[] = [segment(0, SEGMENT_CELLS_MIN)]

  constructor(pool: RecordPool, keyWords: number, seed: number) {
    this.#pool = pool
    this.#keyWords = keyWords
    this.#seed = seed
  }

  /** The tag of the key that begins at `offset`. */
  tag(words: Int32Array, offset: number): number {
    let tag = Math.imul(this.#seed ^ words[offset]!, 0x9e3779b1)
    tag = Math.imul(tag ^ (tag >>> 15) ^ words[offset + 1]!, 0x85ebca77)
    tag = Math.imul(tag ^ (tag >>> 13) ^ words[offset + 2]!, 0xc2b2ae3d)
    tag = Math.imul(tag ^ (tag >>> 15) ^ words[offset + 3]!, 0x27d4eb2f)
    return tag ^ (tag >>> 16)
  }

  find(tag: number, key: Int32Array): number {
    const { cells, mask } = this.#segmentOf(tag)
    for (let at = tag & mask; ; at = (at + 1) & mask) {
      const entry = cells[2 * at + 1]!
      if (entry === 0) return NIL
      if (cells[2 * at] === tag && this.#holds(entry - 1, key)) return entry - 1
    }
  }

  /** Enters a slot whose key is not in the index yet. */
  add(tag: number, slot: number): void {
    let home = this.#segmentOf(tag)
    while (home.count * 8 >= (home.mask + 1) * 5) {
      this.#enlarge(home)
      home = this.#segmentOf(tag)
    }
    insert(home, tag, slot + 1)
  }

  remove(tag: number, slot: number): void {
    const home = this.#segmentOf(tag)
    const { cells, mask } = home
    let hole = tag & mask
    while (cells[2 * hole + 1] !== slot + 1) hole = (hole + 1) & mask
    // Entries after the hole move back into it unless that would put them before their home, so
    // that no search meets an empty cell too early and no tombstones gather.
    for (let at = (hole + 1) & mask; cells[2 * at + 1] !== 0; at = (at + 1) & mask) {
      const wanted = cells[2 * at]! & mask
      if (((at - wanted) & mask) < ((at - hole) & mask)) continue
      cells[2 * hole] = cells[2 * at]!
      cells[2 * hole + 1] = cells[2 * at + 1]!
      hole = at
    }
    cells[2 * hole + 1] = 0
    home.count--
  }

  #segmentOf(tag: number): Segment {
    return this.#directory[(tag >>> 1) >>> (31 - this.#depth)]!
  }

  #holds(slot: number, key: Int32Array): boolean {
    const words = this.#pool.page(slot)
    const offset = this.#pool.offset(slot)
    for (let word = 0; word < this.#keyWords; word++) {
      if (words[offset + word] !== key[word]) return false
    }
    return true
  }

  #enlarge(full: Segment): void {
    const cells = full.mask + 1
    if (cells < SEGMENT_CELLS_MAX || full.depth === DEPTH_MAX) {
      const larger = segment(full.depth, cells * 2)
      move(full, () => larger)
      full.mask = larger.mask
      full.cells = larger.cells
      return
    }
    const depth = full.depth + 1
    const low = segment(depth, cells)
    const high = segment(depth, cells)
    move(full, (tag) => (((tag >>> 1) >>> (31 - depth)) & 1 ? high : low))
    if (depth > this.#depth) {
      this.#directory = this.#directory.flatMap((entry) => [entry, entry])
      this.#depth = depth
    }
    const span = 1 << (this.#depth - depth)
    const first = this.#directory.indexOf(full)
    this.#directory.fill(low, first, first + span)
    this.#directory.fill(high, first + span, first + 2 * span)
  }
}

function segment(depth: number, cells: number): Segment {
  return { depth, count: 0, mask: cells - 1, cells: new Int32Array(2 * cells) }
}

function insert(into: Segment, tag: number, entry: number): void {
  const { cells, mask } = into
  let at = tag & mask
  while (cells[2 * at + 1] !== 0) at = (at + 1) & mask
  cells[2 * at] = tag
  cells[2 * at + 1] = entry
  into.count++
}

function move(from: Segment, target: (tag: number) => Segment): void {
  for (let at = 0; at <= from.mask; at++) {
    const entry = from.cells[2 * at + 1]!
    if (entry === 0) continue
    const tag = from.cells[2 * at]!
    insert(target(tag), tag, entry)
  }
}
