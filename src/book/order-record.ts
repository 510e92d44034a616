/**
 * Where each field of a resting order lies in its record of 32 words, and the same order as plain
 * data. A record holds everything about its order, so that a copy of it is a snapshot of it; this
 * layout is what snapshots store, and changing it needs a new snapshot version.
 */

import type { Address, OrderHash } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import { BUY, SELL, type Side } from '#domain/order.ts'
import { PAGE_MASK } from './record-pool.ts'

/** What stays the same while an order rests. */
export type OrderTerms = {
  readonly orderHash: OrderHash
  readonly trader: Address
  readonly side: Side
  readonly price: Price
  /** What the trader signed. */
  readonly size: Shares
  readonly expiresAtSec: number
  readonly placedAtMs: number
}

export type RestingOrder = OrderTerms & {
  readonly remaining: Shares
  /** How many counter-orders it matched when it was placed. */
  readonly matches: number
}

/** A record has `2 ** RECORD_SHIFT` words. */
export const RECORD_SHIFT = 5
export const RECORD_WORDS = 1 << RECORD_SHIFT

/** Words of a record. The hash is first, because an index finds records by how they begin. */
export const HASH = 0
export const TRADER = 8
/** The side in bit 0, the price in the 20 bits above it, the bucket of the expiry wheel above. */
export const PRICE_SIDE = 13
export const PRICE_SIDE_MASK = (1 << 21) - 1
export const DUE_SHIFT = 21
export const PREV = 22
export const NEXT = 23
export const TRADER_PREV = 24
export const TRADER_NEXT = 25
export const DUE_PREV = 26
export const DUE_NEXT = 27
/** The slot of its level. */
export const LEVEL = 28
export const MATCHES = 29
export const TRADER_SLOT = 30
/** The slot itself while the order rests; the pool's own. */
export const STATE = 31

/** Doubles of a record, each over two words. */
export const SIZE = 7
export const REMAINING = 8
export const EXPIRES = 9
export const PLACED = 10
/** Only in copies, where links mean nothing: how much of the order a match took. */
export const TAKEN = 13

/** Where the words of a record begin in its page; its doubles begin at half of it. */
export function recordAt(slot: number): number {
  return (slot & PAGE_MASK) << RECORD_SHIFT
}

export function priceOf(priceSide: number): Price {
  return ((priceSide & PRICE_SIDE_MASK) >> 1) as Price
}

export function sideOf(priceSide: number): Side {
  return (priceSide & 1) === 0 ? BUY : SELL
}

/** The order of the record that begins at `offset`, whose texts the caller knows. */
export function readRecord(
  words: Int32Array,
  doubles: Float64Array,
  offset: number,
  trader: Address,
  orderHash: OrderHash,
): RestingOrder {
  const priceSide = words[offset + PRICE_SIDE]!
  const half = offset >> 1
  return {
    orderHash,
    trader,
    side: sideOf(priceSide),
    price: priceOf(priceSide),
    size: doubles[half + SIZE]! as Shares,
    remaining: doubles[half + REMAINING]! as Shares,
    expiresAtSec: doubles[half + EXPIRES]!,
    placedAtMs: doubles[half + PLACED]!,
    matches: words[offset + MATCHES]!,
  }
}
