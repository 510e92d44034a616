/**
 * Finds slots by a tag of 32 bits: an extendible hash table. The table grows by splitting one small segment at a time,
 * so no insertion moves more than a few thousand entries. Different keys may have the same tag. So the caller compares
 * the keys, and calls `findNext` if they differ. At most about five of eight cells are used, so a search mostly ends at
 * its first cell.
 */

import * as layout from './layout.ts'

const { NIL } = layout

const SEGMENT_CELLS_MIN = 8
const SEGMENT_CELLS_MAX = 4096
const DEPTH_MAX = 16

type Segment = {
  /** Number of leading tag bits that all entries of the segment share. */
  depth: number
  count: number
  mask: number
  /** Two words for each cell: the tag, and the slot plus 1. In an empty cell, the second word is 0. */
  cells: Int32Array
}

export class TagIndex {
  #depth = 0
  #directory: Segment[] = [segment(0, SEGMENT_CELLS_MIN)]
  #foundAt = 0

  /** Returns the first slot with this tag; NIL if there is none. */
  find(tag: number): number {
    return this.#findFrom(tag, tag)
  }

  /** Returns the next slot with this tag after the last one found. The index must not have changed since. */
  findNext(tag: number): number {
    return this.#findFrom(tag, this.#foundAt + 1)
  }

  #findFrom(tag: number, start: number): number {
    const { cells, mask } = this.#segmentOf(tag)
    for (let at = start & mask; ; at = (at + 1) & mask) {
      const entry = cells[2 * at + 1]!
      if (entry === 0) return NIL
      if (cells[2 * at] !== tag) continue
      this.#foundAt = at
      return entry - 1
    }
  }

  add(tag: number, slot: number): void {
    insert(this.#roomFor(tag), tag, slot + 1)
  }

  /**
   * Adds the slot and returns NIL. If the index already has a slot with this tag, changes nothing and returns that
   * slot.
   */
  addNew(tag: number, slot: number): number {
    const home = this.#roomFor(tag)
    const { cells, mask } = home
    for (let at = tag & mask; ; at = (at + 1) & mask) {
      const entry = cells[2 * at + 1]!
      if (entry === 0) {
        cells[2 * at] = tag
        cells[2 * at + 1] = slot + 1
        home.count++
        return NIL
      }
      if (cells[2 * at] === tag) return entry - 1
    }
  }

  remove(tag: number, slot: number): void {
    const home = this.#segmentOf(tag)
    const { cells, mask } = home
    let hole = tag & mask
    while (cells[2 * hole + 1] !== slot + 1) hole = (hole + 1) & mask
    // A search ends at the first empty cell. So it would miss the entries after the hole that the removed entry leaves.
    // To fill the hole, a later entry moves into it, unless its first possible cell (`wanted`) is after the hole.
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

  /** Returns the segment of a tag; enlarges the segment first if it has no room for another entry. */
  #roomFor(tag: number): Segment {
    let home = this.#segmentOf(tag)
    while (home.count * 8 >= (home.mask + 1) * 5) {
      this.#enlarge(home)
      home = this.#segmentOf(tag)
    }
    return home
  }

  #segmentOf(tag: number): Segment {
    return this.#directory[(tag >>> 1) >>> (31 - this.#depth)]!
  }

  #enlarge(full: Segment): void {
    const cells = full.mask + 1
    if (cells < SEGMENT_CELLS_MAX || full.depth === DEPTH_MAX) {
      const larger = segment(full.depth, cells * 2)
      move(full, larger, larger)
      full.mask = larger.mask
      full.cells = larger.cells
      return
    }
    const depth = full.depth + 1
    const low = segment(depth, cells)
    const high = segment(depth, cells)
    move(full, low, high)
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

/** Moves each entry to `low` or `high`, by the first tag bit after the bits that all entries share. */
function move(from: Segment, low: Segment, high: Segment): void {
  for (let at = 0; at <= from.mask; at++) {
    const entry = from.cells[2 * at + 1]!
    if (entry === 0) continue
    const tag = from.cells[2 * at]!
    insert(((tag >>> 1) >>> (30 - from.depth)) & 1 ? high : low, tag, entry)
  }
}
