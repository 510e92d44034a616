import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Uint64, Uint256 } from '#domain/ids.ts'
import { costCeil, PRICE_MAX, PRICE_MIN, type Price, type Shares, SIZE_MAX } from '#domain/money.ts'
import { BUY, SELL } from '#domain/order.ts'
import { permitFlaws, permitValueMin } from '#domain/order-permit.ts'

const buy = (price: number, size: number) =>
  ({
    side: BUY,
    price: price as Price,
    size: size as Shares,
    expiration: '1900000000' as Uint64,
  }) as const
const permit = { value: '4210000' as Uint256, deadline: '1900000000' as Uint64 }

test('a permit’s minimum value is the order’s cost plus a rounding reserve, at most one dollar per share', () => {
  assert.equal(permitValueMin(buy(420_000, 10_000_000)), 4_210_000n)
  assert.equal(permitValueMin(buy(333_333, 1)), 1n)
  assert.equal(permitValueMin(buy(333_333, 3)), 3n)
  assert.equal(
    permitValueMin(buy(999_999, SIZE_MAX)),
    BigInt(costCeil(999_999 as Price, SIZE_MAX as Shares)) + 10_000n,
  )
  assert.equal(permitValueMin({ ...buy(420_000, 10_000_000), side: SELL }), 0n)
})

test('a permit with too low a value is refused, and the error names the amount that the order needs', () => {
  assert.deepEqual(permitFlaws(buy(420_000, 10_000_000), permit, 0), [])
  const short = { ...permit, value: '4209999' as Uint256 }
  const [flaw, ...others] = permitFlaws(buy(420_000, 10_000_000), short, 0)
  assert.deepEqual([flaw?.rejected, flaw?.field], ['INVALID_FIELD', 'permitSignature.value'])
  assert.match(flaw?.detail ?? '', /at least 4210000/)
  assert.deepEqual(others, [])
})

test('a permit is refused if it expires before the last trade of its order can settle', () => {
  const flawsAt = (deadline: string, settleSec: number) =>
    permitFlaws(buy(420_000, 10_000_000), { ...permit, deadline: deadline as Uint64 }, settleSec)
  assert.deepEqual(flawsAt('1900000000', 0), [])
  assert.deepEqual(flawsAt('1900000900', 900), [])
  for (const [deadline, settleSec, least] of [
    ['1899999999', 0, 1_900_000_000],
    ['1900000899', 900, 1_900_000_900],
  ] as const) {
    const [flaw] = flawsAt(deadline, settleSec)
    assert.deepEqual([flaw?.rejected, flaw?.field], ['INVALID_PERMIT', 'permitSignature.deadline'])
    assert.ok(flaw?.detail?.includes(`must be at least ${least}`), flaw?.detail)
  }
})

test('a sell order with a permit is refused', () => {
  const [flaw] = permitFlaws({ ...buy(420_000, 10_000_000), side: SELL }, permit, 0)
  assert.deepEqual([flaw?.rejected, flaw?.field], ['INVALID_PERMIT', 'permitSignature'])
})

test('a permit’s minimum value covers all fills of its order, however the order is divided into fills', () => {
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
