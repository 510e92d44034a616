/**
 * Nonces of orders. Any number that distinguishes equal orders works. These rise with time, so that "all orders below
 * this nonce", which the settlement contract can void in one step, are the earlier ones.
 *
 *   milliseconds since 1970 × 2^20 + a random number below 2^20
 *
 * Within a process each is higher than the last, so no two are equal.
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
