/**
 * Maps an order's hash to the rows of the closed-order table that may contain the order. A closed order takes 11 to 21
 * bytes of memory. Most lookups are for new hashes. They cost one memory access and no read by SQLite. The index stores
 * fingerprints only; the caller compares the whole hash.
 *
 * The index consists of 256 open-addressed tables. Each grows on its own, so growing never stops the thread for long. A
 * reversible function mixes a fingerprint with a secret. Eight bits of the result select a table, and the table stores
 * the other 24 bits. So different fingerprints stay distinct.
 */

import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'

const SEGMENTS = 256
const SLOTS_MIN = 64
/** Maximum row number. Its 40 bits are enough for a thousand rows a second for 34 years. */
const ROW_MAX = 2 ** 40 - 1

type Segment = {
  /**
   * Two words per slot. The first word has 24 bits of the mixed fingerprint and the high 8 bits of the row. The second
   * word has the low 32 bits of the row. Row 0 means an empty slot.
   */
  cells: Uint32Array
  mask: number
  size: number
}

export class ClosedIndex {
  /** Random value that is mixed into every slot position, so that no trader can choose hashes that collide. */
  readonly #seed = randomInt(0, 2 ** 32)
  readonly #segments: Segment[] = new Array(SEGMENTS).fill(NOTHING)
  #size = 0

  get size(): number {
    return this.#size
  }

  add(fingerprint: number, row: number): void {
    assert(row > 0 && row <= ROW_MAX, 'the row number of a closed order must be from 1 to 2^40 - 1')
    const mixed = this.#mix(fingerprint)
    const index = mixed >>> 24
    let segment = this.#segments[index]!
    if ((segment.size + 1) * 4 > (segment.mask + 1) * 3) {
      segment = grown(segment)
      this.#segments[index] = segment
    }
    put(segment, mixed << 8, row)
    this.#size++
  }

  /** Returns every row that may have the fingerprint; a row that was added twice is returned twice. */
  rows(fingerprint: number): number[] {
    const mixed = this.#mix(fingerprint)
    const { cells, mask } = this.#segments[mixed >>> 24]!
    let found: number[] = NONE
    for (let slot = mixed & mask; ; slot = (slot + 1) & mask) {
      const row = rowAt(cells, slot)
      if (row === 0) return found
      if (((cells[2 * slot]! ^ (mixed << 8)) & KEY_MASK) === 0) {
        if (found === NONE) found = []
        found.push(row)
      }
    }
  }

  remove(fingerprint: number, row: number): void {
    const mixed = this.#mix(fingerprint)
    const segment = this.#segments[mixed >>> 24]!
    const { cells, mask } = segment
    let slot = mixed & mask
    for (;;) {
      const found = rowAt(cells, slot)
      assert(found !== 0, 'the entry to remove is not in the index')
      if (found === row && ((cells[2 * slot]! ^ (mixed << 8)) & KEY_MASK) === 0) break
      slot = (slot + 1) & mask
    }
    // Close the gap of the removed entry, because a lookup stops at the first empty slot. Move each later entry into
    // the gap, unless lookups of that entry begin after the gap. The old slot of a moved entry becomes the new gap.
    let gap = slot
    for (let next = (gap + 1) & mask; rowAt(cells, next) !== 0; next = (next + 1) & mask) {
      const home = (cells[2 * next]! >>> 8) & mask
      if (((next - home) & mask) < ((next - gap) & mask)) continue
      cells[2 * gap] = cells[2 * next]!
      cells[2 * gap + 1] = cells[2 * next + 1]!
      gap = next
    }
    cells[2 * gap] = 0
    cells[2 * gap + 1] = 0
    segment.size--
    this.#size--
  }

  #mix(fingerprint: number): number {
    let mixed = Math.imul(fingerprint ^ this.#seed, 0x9e3779b1)
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x85ebca77)
    return (mixed ^ (mixed >>> 13)) >>> 0
  }
}

const NONE: number[] = []

/** Fingerprint bits of a slot's first word. */
const KEY_MASK = 0xffffff00
/**
 * Maximum number of slots of a table. A slot number is computed from the 24 stored fingerprint bits, which cannot
 * address more slots.
 */
const SLOTS_MAX = 2 ** 24

function emptySegment(slots: number): Segment {
  assert(slots <= SLOTS_MAX, 'a table of the index is full')
  return { cells: new Uint32Array(2 * slots), mask: slots - 1, size: 0 }
}

/** Shared empty table; the first insert replaces it, so it is never written. */
const NOTHING = emptySegment(1)

function grown({ cells, mask }: Segment): Segment {
  const segment = emptySegment(Math.max(SLOTS_MIN, 2 * (mask + 1)))
  for (let slot = 0; slot <= mask; slot++) {
    const row = rowAt(cells, slot)
    if (row !== 0) put(segment, cells[2 * slot]! & KEY_MASK, row)
  }
  return segment
}

function rowAt(cells: Uint32Array, slot: number): number {
  return (cells[2 * slot]! & 0xff) * 2 ** 32 + cells[2 * slot + 1]!
}

/**
 * Stores a row in the first free slot for `key`. The top 24 bits of `key` are the stored bits of the mixed fingerprint.
 */
function put(segment: Segment, key: number, row: number): void {
  const { cells, mask } = segment
  let slot = (key >>> 8) & mask
  while (rowAt(cells, slot) !== 0) slot = (slot + 1) & mask
  cells[2 * slot] = key | Math.floor(row / 2 ** 32)
  cells[2 * slot + 1] = row % 2 ** 32
  segment.size++
}
