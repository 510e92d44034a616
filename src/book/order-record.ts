/** An order as plain data, and its decoding from a record of 32 words, whose fields are in `layout.ts`. */

import type { Address, OrderHash } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import { BUY, SELL, type Side } from '#domain/order.ts'
import * as layout from './layout.ts'

const {
  PAGE_MASK,
  RECORD_SHIFT,
  PRICE_SIDE,
  PRICE_SIDE_MASK,
  SIZE,
  REMAINING,
  EXPIRES,
  PLACED,
  MATCHES,
} = layout

/** The constant fields of a resting order. */
export type OrderTerms = {
  readonly orderHash: OrderHash
  readonly trader: Address
  readonly side: Side
  readonly price: Price
  /** Size that the trader signed. */
  readonly size: Shares
  readonly expiresAtSec: number
  readonly placedAtMs: number
}

export type RestingOrder = OrderTerms & {
  readonly remaining: Shares
  /** Number of resting orders that the order matched when it was placed. */
  readonly matches: number
}

/**
 * Returns the index of a record in the `Int32Array` of its page. The index in the page's `Float64Array` is half as
 * large.
 */
export function recordAt(slot: number): number {
  return (slot & PAGE_MASK) << RECORD_SHIFT
}

export function priceOf(priceSide: number): Price {
  return ((priceSide & PRICE_SIDE_MASK) >> 1) as Price
}

export function sideOf(priceSide: number): Side {
  return (priceSide & 1) === 0 ? BUY : SELL
}

/**
 * Returns the order of the record at `offset`, with the texts that the caller passes. Every cancel and lookup calls
 * this function, so it creates only one object.
 */
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
