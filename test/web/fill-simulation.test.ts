/** Tests the simulated fill of an order, which uses integers and rounds as the exchange does. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { costCeil, type Price, type Shares } from '#domain/money.ts'
import { costAtMost, sharesFor, sharesFromBook, simulateFill } from '#web/market/fill-simulation.ts'

const levels = (...pairs: readonly (readonly [number, number])[]) =>
  pairs.map(([price, size]) => ({ price, size: BigInt(size) }))

const ASKS = levels([420_000, 10_000_000], [430_000, 5_000_000], [500_000, 100_000_000])
const BIDS = levels([410_000, 10_000_000], [400_000, 5_000_000])

test('a simulated buy takes the cheapest levels first, up to the limit', () => {
  const fill = simulateFill({ side: 'buy', price: 430_000, size: 20_000_000 }, ASKS)
  assert.deepEqual(fill, {
    filled: 15_000_000,
    rest: 5_000_000,
    cost: 6_350_000n,
    implied: 0,
    average: 423_334,
    worst: 430_000,
    slippage: 3_334,
  })
  assert.equal(costAtMost({ price: 430_000, size: 20_000_000 }, fill), 8_500_000n)
})

test('a simulated sell takes the highest levels first, and the average is rounded down', () => {
  const fill = simulateFill({ side: 'sell', price: 400_000, size: 13_000_000 }, BIDS)
  assert.equal(fill.filled, 13_000_000)
  assert.equal(fill.cost, 5_300_000n)
  assert.equal(fill.average, 407_692)
  assert.equal(fill.slippage, 2_308)
})

test('in a simulated merge, the seller gets one dollar minus the other seller’s rounded-up price', () => {
  const asks = [{ price: 600_000, size: 15_000_000n, implied: 10_000_000n }]
  const bought = simulateFill({ side: 'buy', price: 610_000, size: 12_000_000 }, asks)
  assert.deepEqual(
    [bought.filled, bought.implied, bought.cost],
    [12_000_000, 10_000_000, 7_200_000n],
  )
  // Two sellers merge 3 shares into 3 units. The other seller gets 3 × 0.4, rounded up to 2, so this seller gets 1. In
  // a sale to a bid at 0.6, this seller gets 3 × 0.6, rounded up to 2.
  const bids = [{ price: 600_000, size: 3n, implied: 3n }]
  assert.equal(simulateFill({ side: 'sell', price: 500_000, size: 3 }, bids).cost, 1n)
  const plain = [{ price: 600_000, size: 3n }]
  assert.equal(simulateFill({ side: 'sell', price: 500_000, size: 3 }, plain).cost, 2n)
})

test('a dollar amount buys the shares that the book offers for that amount within the price limit', () => {
  const buy = (amount: bigint, price = 430_000) =>
    sharesFromBook({ side: 'buy', price, amount }, ASKS)
  assert.equal(buy(4_200_000n), 10_000_000)
  assert.equal(buy(5_060_000n), 12_000_000)
  assert.equal(buy(1_000_000_000n), 15_000_000, 'no more than is offered up to the limit')
  assert.equal(buy(0n), 0)
  assert.equal(
    sharesFromBook({ side: 'sell', price: 400_000, amount: 4_100_000n }, BIDS),
    10_000_000,
  )
})

test('a purchase by dollar amount costs at most the amount plus two rounding units per price level', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.tuple(fc.integer({ min: 1, max: 999_999 }), fc.integer({ min: 1, max: 10 ** 12 })),
        {
          maxLength: 8,
        },
      ),
      fc.bigInt({ min: 0n, max: 10n ** 13n }),
      (pairs, amount) => {
        const asks = levels(...pairs.toSorted(([a], [b]) => a - b))
        const size = sharesFromBook({ side: 'buy', price: 999_999, amount }, asks)
        const { cost, rest } = simulateFill({ side: 'buy', price: 999_999, size }, asks)
        assert.equal(rest, 0)
        assert.ok(cost <= amount + BigInt(2 * pairs.length))
      },
    ),
  )
})

test('an order that matches nothing has no average price', () => {
  const fill = simulateFill({ side: 'buy', price: 419_999, size: 1_000_000 }, ASKS)
  assert.deepEqual(fill, {
    ...{ filled: 0, rest: 1_000_000, cost: 0n, implied: 0, slippage: 0 },
    ...{ average: undefined, worst: undefined },
  })
  assert.equal(costAtMost({ price: 419_999, size: 1_000_000 }, fill), 419_999n)
})

test('a simulated order is filled exactly at a price level whose size is above 2^53', () => {
  const deep = [{ price: 500_000, size: 2n ** 60n }]
  const fill = simulateFill({ side: 'buy', price: 500_000, size: Number.MAX_SAFE_INTEGER }, deep)
  assert.equal(fill.rest, 0)
  assert.equal(fill.cost, BigInt(costCeil(500_000 as Price, Number.MAX_SAFE_INTEGER as Shares)))
})

test('a dollar amount buys the largest size whose cost does not exceed the amount', () => {
  const amounts = fc.integer({ min: 1, max: 10 ** 12 })
  fc.assert(
    fc.property(amounts, fc.integer({ min: 1, max: 999_999 }), (amount, price) => {
      const size = sharesFor(BigInt(amount), price)
      if (size > 0) assert.ok(costCeil(price as Price, size as Shares) <= amount)
      const isCapped = size === Number.MAX_SAFE_INTEGER
      assert.ok(isCapped || BigInt(size + 1) * BigInt(price) > BigInt(amount) * 1_000_000n)
    }),
  )
})
