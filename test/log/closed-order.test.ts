/** Tests that closed orders are decoded unchanged, and that values outside a field's range cannot be encoded. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { MarketId, OrderHash } from '#domain/ids.ts'
import type { Price } from '#domain/money.ts'
import {
  CLOSED_ORDER_BYTES,
  decodeClosedOrder,
  encodeClosedOrders,
  fingerprintAt,
  fingerprintOf,
} from '#log/closed/closed-order.ts'
import { withSeeds } from '../support/random.ts'
import { closedOrder } from './flow.ts'

test('closed orders are encoded and decoded unchanged, each with the fingerprint of its order hash', () => {
  withSeeds([1, 2], (random) => {
    const markets = [random.hex(32), random.hex(32)] as MarketId[]
    const orders = Array.from({ length: 200 }, () => closedOrder(random, random.pick(markets)))
    const bytes = encodeClosedOrders(orders)
    for (const [index, order] of orders.entries()) {
      const at = index * CLOSED_ORDER_BYTES
      assert.deepEqual(decodeClosedOrder(bytes, at), order)
      assert.equal(fingerprintAt(bytes, at), fingerprintOf(order.orderHash))
    }
  })
})

test('order hashes that begin with the same bytes still have different fingerprints', () => {
  withSeeds([1, 2], (random) => {
    const hashes = Array.from({ length: 1_000 }, () => `0x00c0ffee${random.hex(28).slice(2)}`)
    const fingerprints = new Set(hashes.map((hash) => fingerprintOf(hash as OrderHash)))
    assert(fingerprints.size > 990, `${fingerprints.size} of 1000`)
  })
})

test('a closed order with a value outside its field’s range cannot be encoded', () => {
  withSeeds([1], (random) => {
    const order = closedOrder(random, random.hex(32) as MarketId)
    assert.equal(encodeClosedOrders([order]).length, CLOSED_ORDER_BYTES)
    for (const wrong of [
      { price: -1 as Price },
      { price: (2 ** 32) as Price },
      { price: 0.5 as Price },
      { matches: -1 },
      { orderHash: random.hex(31) as OrderHash },
      { orderHash: random.hex(33) as OrderHash },
    ]) {
      assert.throws(() => encodeClosedOrders([{ ...order, ...wrong }]), assert.AssertionError)
    }
  })
})
