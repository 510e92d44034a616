/**
 * Makes nonces of orders. A nonce only has to distinguish otherwise equal orders. The nonces of this file also rise
 * with time. So if a trader cancels, on the chain, all orders below a nonce, the contract cancels the older orders.
 *
 *   nonce = milliseconds since 1970 × 2^20 + a random number below 2^20
 *
 * Within a process, each nonce is higher than the one before, so no two nonces are equal.
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
