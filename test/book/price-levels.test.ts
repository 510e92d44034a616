import assert from 'node:assert/strict'
import { test } from 'node:test'
import { COUNT, LEVEL_SHIFT, NIL } from '#book/layout.ts'
import { levelAt } from '#book/level.ts'
import { PriceLevels } from '#book/price-levels.ts'
import { RecordPool } from '#book/record-pool.ts'
import { PRICE_MAX, PRICE_MIN } from '#domain/money.ts'
import { withSeeds } from '../support/random.ts'

/** One side of a book that keeps only the number of orders at each level. */
class Side {
  readonly pool = new RecordPool(LEVEL_SHIFT, 1_000_000)
  readonly bestIsHighest: boolean
  readonly levels: PriceLevels
  readonly orders = new Map<number, number>()

  constructor(bestIsHighest: boolean) {
    this.bestIsHighest = bestIsHighest
    this.levels = new PriceLevels(this.pool, bestIsHighest)
  }

  join(price: number): void {
    const level = this.levels.levelOf(price, price * 2)
    const count = this.#count(level, 1)
    assert.equal(count, (this.orders.get(price) ?? 0) + 1, `orders at ${price}`)
    this.orders.set(price, count)
    if (count === 1) this.levels.filled(price, level)
  }

  leave(price: number): void {
    const level = this.levels.levelAt(price)
    const count = this.#count(level, -1)
    if (count > 0) this.orders.set(price, count)
    else {
      this.orders.delete(price)
      this.levels.emptied(price, level)
    }
  }

  check(): void {
    const sorted = [...this.orders.keys()].sort((a, b) => (this.bestIsHighest ? b - a : a - b))
    const listed: number[] = []
    for (let at = this.levels.best; at !== 0; at = this.levels.next(at)) listed.push(at)
    assert.deepEqual(listed, sorted)
    const best = sorted[0]
    assert.equal(this.levels.bestLevel, best === undefined ? NIL : this.levels.levelAt(best))
  }

  #count(level: number, change: number): number {
    const page = this.pool.page(level)
    page[levelAt(level) + COUNT]! += change
    return page[levelAt(level) + COUNT]!
  }
}

test('the price levels of each side of the book are listed in price order after random changes', () => {
  withSeeds([1, 2, 3, 4], (random) => {
    for (const bestIsHighest of [true, false]) {
      const side = new Side(bestIsHighest)
      const spread = random.pick([40, 3_000, PRICE_MAX])
      for (let round = 0; round < 500; round++) {
        const prices = [...side.orders.keys()]
        if (prices.length > 0 && random.chance(0.45)) side.leave(random.pick(prices))
        else side.join(random.int(PRICE_MIN, spread))
        // Only some of the changes are followed by a check. So between two checks several levels become empty, and some
        // of them receive orders again.
        if (random.chance(0.3)) side.check()
      }
      side.check()
    }
  })
})

test('when all levels of a book side are empty, the side has no best price and accepts orders', () => {
  for (const bestIsHighest of [true, false]) {
    const side = new Side(bestIsHighest)
    for (let price = 1; price <= 2_000; price += 7) side.join(price)
    while (side.levels.best !== 0) {
      side.leave(side.levels.best)
      side.check()
    }
    for (let price = 5; price <= 2_000; price += 3) side.join(price)
    side.check()
  }
})

test('the number of empty price levels that a book keeps in memory is limited, however many prices are used', () => {
  for (const bestIsHighest of [true, false]) {
    const side = new Side(bestIsHighest)
    for (let price = 1; price <= 60_000; price++) side.join(price)
    for (let price = 1; price <= 60_000; price++) if (price % 1_000 !== 0) side.leave(price)
    assert.ok(side.pool.live <= 16_384, `${side.pool.live} levels`)
    side.check()
    for (let price = 1; price <= 60_000; price += 11) side.join(price)
    side.check()
    // The book has freed the records of empty levels. It now uses these records for levels of other prices.
    for (let price = 60_001; price <= 90_000; price++) side.join(price)
    for (let price = 1; price <= 60_000; price += 7) side.join(price)
    side.check()
  }
})
