import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PriceSet } from '#book/price-set.ts'
import { PRICE_MAX, PRICE_MIN } from '#domain/money.ts'
import { withSeeds } from '../support/random.ts'

test('a price set lists exactly its prices in order, as a sorted array would', () => {
  withSeeds([1, 2, 3], (random) => {
    for (const bestIsHighest of [true, false]) {
      const set = new PriceSet(bestIsHighest)
      const prices = new Set<number>()
      const spread = random.pick([40, 3_000, PRICE_MAX])
      for (let round = 0; round < 300; round++) {
        const price = random.int(PRICE_MIN, spread)
        if (prices.delete(price)) set.remove(price)
        else {
          prices.add(price)
          set.add(price)
        }
        if (random.chance(0.3)) {
          const leaving = random.pick([...prices, price])
          if (prices.delete(leaving)) set.remove(leaving)
        }
        const sorted = [...prices].sort((a, b) => (bestIsHighest ? b - a : a - b))
        const listed: number[] = []
        for (let at = set.best; at !== 0; at = set.next(at)) listed.push(at)
        assert.deepEqual(listed, sorted)
      }
    }
  })
})

test('both ends of the grid and the edges of every tier are found', () => {
  const edges = [1, 31, 32, 1023, 1024, 32_767, 32_768, 500_000, PRICE_MAX]
  for (const bestIsHighest of [true, false]) {
    const set = new PriceSet(bestIsHighest)
    for (const price of edges) set.add(price)
    const expected = bestIsHighest ? edges.toReversed() : edges
    for (const price of expected) {
      assert.equal(set.best, price)
      set.remove(price)
    }
    assert.equal(set.best, 0)
  }
})
