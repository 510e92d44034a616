import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  costCeil,
  halvesCeil,
  isPrice,
  isShares,
  ONE,
  PRICE_MAX,
  PRICE_MIN,
  type Price,
  proportionFloor,
  type Shares,
  SIZE_MAX,
} from '#domain/money.ts'

const price = fc.integer({ min: PRICE_MIN, max: PRICE_MAX }).map((value) => value as Price)
const shares = fc
  .oneof(fc.maxSafeNat(), fc.integer({ min: 1, max: 3 * ONE }), fc.constant(SIZE_MAX))
  .filter((value) => value > 0)
  .map((value) => value as Shares)

test('the cost of a fill is its price times its size, rounded up exactly, for all prices and sizes', () => {
  fc.assert(
    fc.property(price, shares, (p, s) => {
      const exact = (BigInt(p) * BigInt(s) + BigInt(ONE) - 1n) / BigInt(ONE)
      const cost = costCeil(p, s)
      assert.equal(BigInt(cost), exact)
      assert(Number.isSafeInteger(cost))
      assert(cost >= 1 && cost <= s)
    }),
    { numRuns: 20_000 },
  )
})

test('the costs of fills equal costs computed by hand', () => {
  assert.equal(costCeil(420_000 as Price, 10_000_000 as Shares), 4_200_000)
  assert.equal(costCeil(1 as Price, 1 as Shares), 1)
  assert.equal(costCeil(PRICE_MAX as Price, 1 as Shares), 1)
  assert.equal(costCeil(500_000 as Price, 3 as Shares), 2)
  assert.equal(costCeil(PRICE_MAX as Price, SIZE_MAX as Shares), 9_007_190_247_541_737)
})

test('several small fills never cost less than one fill of their total size', () => {
  fc.assert(
    fc.property(price, shares, shares, (p, a, b) => {
      if (a + b > SIZE_MAX) return
      assert(costCeil(p, a) + costCeil(p, b) >= costCeil(p, (a + b) as Shares))
    }),
  )
})

test('the cost of a sold part of a position is its proportional share of the total cost, rounded down', () => {
  const amount = fc.bigInt({ min: 0n, max: 2n ** 80n })
  const whole = fc.bigInt({ min: 1n, max: 2n ** 80n })
  fc.assert(
    fc.property(amount, whole, whole, (a, x, y) => {
      const [part, all] = x < y ? [x, y] : [y, x]
      const left = proportionFloor(a, part, all)
      assert(left * all <= a * part && (left + 1n) * all > a * part)
      assert(left <= a)
    }),
  )
  assert.equal(proportionFloor(100n, 3n, 3n), 100n)
  assert.equal(proportionFloor(100n, 0n, 3n), 0n)
  assert.throws(() => proportionFloor(1n, 2n, 1n), RangeError)
  assert.throws(() => proportionFloor(1n, 0n, 0n), RangeError)
})

test('an amount of collateral is split into two halves without loss, which differ by at most one unit', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 2n ** 80n }), (amount) => {
      const [larger, smaller] = halvesCeil(amount)
      assert.equal(larger + smaller, amount)
      assert(larger - smaller === 0n || larger - smaller === 1n)
    }),
  )
})

test('values that are not a price or not a size are refused', () => {
  for (const value of [0, -1, 1_000_000, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
    assert.equal(isPrice(value), false, `${value}`)
  }
  assert(isPrice(1) && isPrice(999_999))
  for (const value of [0, -1, 0.5, 2 ** 53, Number.NaN]) assert.equal(isShares(value), false)
  assert(isShares(1) && isShares(SIZE_MAX))
})
