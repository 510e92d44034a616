import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NIL } from '#book/layout.ts'
import { PriceLevels } from '#book/price-levels.ts'
import { PRICE_MAX, PRICE_MIN } from '#domain/money.ts'
import { withSeeds } from '../support/random.ts'

test('the prices are listed in order with their levels, as a sorted map would', () => {
  withSeeds([1, 2, 3], (random) => {
    for (const bestIsHighest of [true, false]) {
      const set = new PriceLevels(bestIsHighest)
      const prices = new Map<number, number>()
      const spread = random.pick([40, 3_000, PRICE_MAX])
      for (let round = 0; round < 300; round++) {
        const price = random.int(PRICE_MIN, spread)
        const known = prices.get(price)
        if (known !== undefined) {
          prices.delete(price)
          set.remove(price)
          set.forget(price, known)
        } else {
          prices.set(price, round)
          set.enter(price, round)
          set.add(price, round)
        }
        if (random.chance(0.3)) {
          const leaving = random.pick([...prices.keys(), price])
          const level = prices.get(leaving)
          if (level !== undefined) {
            set.remove(leaving)
            set.forget(leaving, level)
          }
          prices.delete(leaving)
        }
        const sorted = [...prices].sort(([a], [b]) => (bestIsHighest ? b - a : a - b))
        const listed: [number, number][] = []
        for (let at = set.best; at !== 0; at = set.next(at)) listed.push([at, set.levelAt(at)])
        assert.deepEqual(listed, sorted)
        assert.equal(set.bestLevel, sorted[0]?.[1] ?? NIL)
        const any = random.int(PRICE_MIN, spread)
        assert.equal(set.levelAt(any), prices.get(any) ?? NIL)
      }
    }
  })
})

test('both ends of the grid and the edges of every tier are found', () => {
  const edges = [1, 31, 32, 1023, 1024, 32_767, 32_768, 500_000, PRICE_MAX]
  for (const bestIsHighest of [true, false]) {
    const set = new PriceLevels(bestIsHighest)
    for (const price of edges) {
      set.enter(price, price + 1)
      set.add(price, price + 1)
    }
    const expected = bestIsHighest ? edges.toReversed() : edges
    for (const price of expected) {
      assert.equal(set.best, price)
      assert.equal(set.bestLevel, price + 1)
      set.remove(price)
    }
    assert.equal(set.best, 0)
  }
})
