import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nextNonce } from '#client/order-nonce.ts'

test('order nonces rise with time, are unique, and fit into 64 bits', () => {
  const START_MS = 1_900_000_000_000
  let last = 0n
  for (let at = 0; at < 10_000; at++) {
    // The clock repeats some times, and sometimes goes back.
    const nonce = BigInt(nextNonce(START_MS + Math.floor(at / 100) - (at % 7)))
    assert.ok(nonce > last)
    last = nonce
  }
  assert.ok(last < BigInt(START_MS + 200) << 20n)
  assert.ok(BigInt(nextNonce(Date.UTC(2400, 0))) < 2n ** 64n)
})
