/**
 * Nonces of orders. Any number does that tells an order from an equal one; these rise with time, so that
 * "all orders below this nonce", which the settlement contract can void at once, are those of before.
 *
 *   milliseconds since 1970 × 2^20 + a random number below 2^20
 *
 * Within a process each is above the one before, so that no two are the same.
 */

import type { Uint64 } from '#domain/ids.ts'

const RANDOM_BITS = 20

let last = 0n

export function nextNonce(nowMs = Date.now()): Uint64 {
  const random = crypto.getRandomValues(new Uint32Array(1))[0]! >>> (32 - RANDOM_BITS)
  const nonce = (BigInt(nowMs) << BigInt(RANDOM_BITS)) + BigInt(random)
  last = nonce > last ? nonce : last + 1n
  return String(last) as Uint64
}
