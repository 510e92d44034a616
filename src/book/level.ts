/**
 * A level: the orders at one price, oldest first, and the exact sum of their remaining quantities. The sum can exceed
 * 2^53, where doubles begin to skip integers, so it is stored as a low part below 2^53 and a count of carries.
 */

import * as layout from './layout.ts'
import type { RecordPool } from './record-pool.ts'

const { NIL, PAGE_MASK, LEVEL_SHIFT, LEVEL_KEY, HEAD, TAIL, COUNT, LOW, CARRY } = layout

const BASE = 2 ** 53

/** Returns the index of a level's first word in its page. */
export function levelAt(level: number): number {
  return (level & PAGE_MASK) << LEVEL_SHIFT
}

/** Adds a level without orders. */
export function openLevel(levels: RecordPool, key: number): number {
  const level = levels.allocate()
  const page = levels.page(level)
  const offset = levelAt(level)
  page[offset + LEVEL_KEY] = key
  page[offset + HEAD] = NIL
  page[offset + TAIL] = NIL
  page[offset + COUNT] = 0
  page[offset + CARRY] = 0
  levels.doublePage(level)[(offset >> 1) + LOW] = 0
  return level
}

export function addToLevel(levels: RecordPool, level: number, quantity: number): void {
  const doubles = levels.doublePage(level)
  const at = (levelAt(level) >> 1) + LOW
  const low = doubles[at]!
  const room = BASE - low
  if (quantity < room) {
    doubles[at] = low + quantity
    return
  }
  doubles[at] = quantity - room
  levels.page(level)[levelAt(level) + CARRY]!++
}

export function takeFromLevel(levels: RecordPool, level: number, quantity: number): void {
  const doubles = levels.doublePage(level)
  const at = (levelAt(level) >> 1) + LOW
  const low = doubles[at]!
  if (quantity <= low) {
    doubles[at] = low - quantity
    return
  }
  doubles[at] = BASE - (quantity - low)
  levels.page(level)[levelAt(level) + CARRY]!--
}

export function levelTotal(levels: RecordPool, level: number): bigint {
  const offset = levelAt(level)
  const low = BigInt(levels.doublePage(level)[(offset >> 1) + LOW]!)
  const carry = levels.page(level)[offset + CARRY]!
  return carry === 0 ? low : low + (BigInt(carry) << 53n)
}
