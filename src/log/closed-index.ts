/**
 * Which row of the table of closed orders may hold a hash: nine bytes of memory for each closed
 * order, so that the normal question, about a hash never seen, costs no disk and no SQLite. It knows
 * fingerprints only; whoever asks compares the whole hash.
 *
 * It is 256 open-addressed tables that grow one at a time: growing never stops the thread for long.
 */

import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'

const SEGMENTS = 256
const SLOTS_MIN = 64
/** Rows are numbered in 40 bits: a thousand a second for 34 years. */
const ROW_MAX = 2 ** 40 - 1

type Segment = {
  fingerprints: Uint32Array
  /** The row's low 32 bits and high 8 bits; row 0 means an empty slot. */
  rowsLow: Uint32Array
  rowsHigh: Uint8Array
  size: number
}

export class ClosedIndex {
  /** Mixed into every place, so that nobody can choose hashes that crowd one. */
  readonly #seed = randomInt(0, 2 ** 32)
  readonly #segments: Segment[] = Array.from({ length: SEGMENTS }, () => emptySegment(SLOTS_MIN))
  #size = 0

  get size(): number {
    return this.#size
  }

  add(fingerprint: number, row: number): void {
    assert(row > 0 && row <= ROW_MAX, 'rows of closed orders are numbered from 1 in 40 bits')
    const mixed = this.#mix(fingerprint)
    const index = mixed >>> 24
    let segment = this.#segments[index]!
    if ((segment.size + 1) * 4 > segment.fingerprints.length * 3) {
      segment = this.#grown(segment)
      this.#segments[index] = segment
    }
    put(segment, mixed, fingerprint, row)
    this.#size++
  }

  /** Every row that may hold the fingerprint; the same row as often as it was added. */
  rows(fingerprint: number): number[] {
    const mixed = this.#mix(fingerprint)
    const segment = this.#segments[mixed >>> 24]!
    const mask = segment.fingerprints.length - 1
    let found: number[] = NONE
    for (let slot = mixed & mask; ; slot = (slot + 1) & mask) {
      const row = rowAt(segment, slot)
      if (row === 0) return found
      if (segment.fingerprints[slot] === fingerprint) {
        if (found === NONE) found = []
        found.push(row)
      }
    }
  }

  remove(fingerprint: number, row: number): void {
    const mixed = this.#mix(fingerprint)
    const segment = this.#segments[mixed >>> 24]!
    const mask = segment.fingerprints.length - 1
    let slot = mixed & mask
    for (;;) {
      const found = rowAt(segment, slot)
      assert(found !== 0, 'only what was added is removed')
      if (found === row && segment.fingerprints[slot] === fingerprint) break
      slot = (slot + 1) & mask
    }
    // What follows moves back into the gap unless it would then lie before its own place.
    let gap = slot
    for (let next = (gap + 1) & mask; rowAt(segment, next) !== 0; next = (next + 1) & mask) {
      const home = this.#mix(segment.fingerprints[next]!) & mask
      if (((next - home) & mask) < ((next - gap) & mask)) continue
      segment.fingerprints[gap] = segment.fingerprints[next]!
      segment.rowsLow[gap] = segment.rowsLow[next]!
      segment.rowsHigh[gap] = segment.rowsHigh[next]!
      gap = next
    }
    segment.rowsLow[gap] = 0
    segment.rowsHigh[gap] = 0
    segment.size--
    this.#size--
  }

  #grown(old: Segment): Segment {
    const segment = emptySegment(old.fingerprints.length * 2)
    for (let slot = 0; slot < old.fingerprints.length; slot++) {
      const row = rowAt(old, slot)
      const fingerprint = old.fingerprints[slot]!
      if (row !== 0) put(segment, this.#mix(fingerprint), fingerprint, row)
    }
    return segment
  }

  #mix(fingerprint: number): number {
    let mixed = Math.imul(fingerprint ^ this.#seed, 0x9e3779b1)
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x85ebca77)
    return (mixed ^ (mixed >>> 13)) >>> 0
  }
}

const NONE: number[] = []

function emptySegment(slots: number): Segment {
  return {
    fingerprints: new Uint32Array(slots),
    rowsLow: new Uint32Array(slots),
    rowsHigh: new Uint8Array(slots),
    size: 0,
  }
}

function rowAt(segment: Segment, slot: number): number {
  return segment.rowsHigh[slot]! * 2 ** 32 + segment.rowsLow[slot]!
}

function put(segment: Segment, mixed: number, fingerprint: number, row: number): void {
  const mask = segment.fingerprints.length - 1
  let slot = mixed & mask
  while (rowAt(segment, slot) !== 0) slot = (slot + 1) & mask
  segment.fingerprints[slot] = fingerprint
  segment.rowsLow[slot] = row % 2 ** 32
  segment.rowsHigh[slot] = Math.floor(row / 2 ** 32)
  segment.size++
}
