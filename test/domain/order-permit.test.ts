import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Uint256 } from '#domain/ids.ts'
import { costCeil, PRICE_MAX, PRICE_MIN, type Price, type Shares, SIZE_MAX } from '#domain/money.ts'
import { BUY, SELL } from '#domain/order.ts'
import { permitFlaw, permitValueMin } from '#domain/order-permit.ts'

const buy = (price: number, size: number) =>
  ({ side: BUY, price: price as Price, size: size as Shares }) as const

test('a permit covers the order and a unit for each fill, and never needs more than the size', () => {
  assert.equal(permitValueMin(buy(420_000, 10_000_000)), 4_210_000n)
  assert.equal(permitValueMin(buy(333_333, 1)), 1n)
  assert.equal(permitValueMin(buy(333_333, 3)), 3n)
  assert.equal(
    permitValueMin(buy(999_999, SIZE_MAX)),
    BigInt(costCeil(999_999 as Price, SIZE_MAX as Shares)) + 10_000n,
  )
  assert.equal(permitValueMin({ ...buy(420_000, 10_000_000), side: SELL }), 0n)
})

test('what is short is refused with the sum that it needs', () => {
  assert.equal(permitFlaw(buy(420_000, 10_000_000), '4210000' as Uint256), undefined)
  const flaw = permitFlaw(buy(420_000, 10_000_000), '4209999' as Uint256)
  assert.deepEqual([flaw?.rejected, flaw?.field], ['INVALID_FIELD', 'permitSignature.value'])
  assert.match(flaw?.detail ?? '', /at least 4210000/)
})

test('no way to fill an order costs more', () => {
  const price = fc.integer({ min: PRICE_MIN, max: PRICE_MAX })
  const sizes = fc.array(fc.integer({ min: 1, max: 5_000_000 }), { minLength: 1, maxLength: 50 })
  fc.assert(
    fc.property(price, sizes, (limit, fills) => {
      let [cost, size] = [0, 0]
      for (const fill of fills) {
        cost += costCeil(limit as Price, fill as Shares)
        size += fill
      }
      assert.ok(BigInt(cost) <= permitValueMin(buy(limit, size)))
    }),
  )
})
