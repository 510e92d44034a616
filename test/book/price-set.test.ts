import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PriceSet } from '#book/price-set.ts'
import { PRICE_MAX, PRICE_MIN } from '#domain/money.ts'
import { withSeeds } from '../support/random.ts'

/** Lists all prices of the set, upwards from the lowest or downwards from the highest. */
function listed(set: PriceSet, prices: readonly number[], way: 'above' | 'below'): number[] {
  const found: number[] = []
  const sorted = prices.toSorted((a, b) => (way === 'above' ? a - b : b - a))
  for (let at = sorted[0] ?? 0; at !== 0; at = set[way](at)) found.push(at)
  return found
}

test('the prices in a price set are listed as in a sorted set, upwards and downwards', () => {
  withSeeds([1, 2, 3], (random) => {
    const set = new PriceSet()
    const prices = new Set<number>()
    const spread = random.pick([40, 3_000, PRICE_MAX])
    for (let round = 0; round < 300; round++) {
      const price = random.int(PRICE_MIN, spread)
      if (prices.delete(price)) set.remove(price)
      else {
        prices.add(price)
        set.add(price)
      }
      if (prices.size > 0 && random.chance(0.3)) {
        const leaving = random.pick([...prices])
        const higher = [...prices].filter((each) => each > leaving)
        prices.delete(leaving)
        set.remove(leaving)
        // The set finds the neighbours of a price even after the price has been removed.
        assert.equal(set.above(leaving), higher.length === 0 ? 0 : Math.min(...higher))
      }
      const sorted = [...prices].sort((a, b) => a - b)
      assert.deepEqual(listed(set, sorted, 'above'), sorted)
      assert.deepEqual(listed(set, sorted, 'below'), sorted.toReversed())
    }
  })
})

test('a price set lists and removes the lowest price, the highest price and prices at its internal boundaries', () => {
  const edges = [1, 31, 32, 1023, 1024, 32_767, 32_768, 500_000, PRICE_MAX]
  const set = new PriceSet()
  for (const price of edges) set.add(price)
  assert.deepEqual(listed(set, edges, 'above'), edges)
  assert.deepEqual(listed(set, edges, 'below'), edges.toReversed())
  for (const price of edges) set.remove(price)
  for (const price of edges) assert.equal(set.above(price) + set.below(price), 0)
})
