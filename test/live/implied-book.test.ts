/** Tests a front's books with implied levels: a bid for one outcome also shows as an ask for the other. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { OUTCOMES } from '#domain/order.ts'
import { bookOf, impliedBookJson, makeBoard, orderbookJson } from '#live/market-board.ts'
import { viewOf } from '#services/market/market.ts'
import { given } from '../services/market/market-fixture.ts'
import { randomFlow } from '../services/market/random-flow.ts'
import { buy, sell } from '../support/orders.ts'
import { randomFrom } from '../support/random.ts'

test('a book with implied levels shows a bid for NO as an ask for YES', () => {
  const market = given({ market: { matching: 'complementary' } })
  const board = makeBoard({
    isComplete: () => true,
    isCurrent: () => true,
    isStale: () => false,
  } as never)
  market.place(buy('NO').at(0.4).size(10).named('a'))
  market.place(sell('YES').at(0.6).size(5).named('b'))
  board.follow(market.events)
  const shown = board.markets.get(market.marketId)!
  const implied = JSON.parse(impliedBookJson(shown, 0))
  assert.deepEqual(implied.asks, [{ price: 600_000, size: 15_000_000, implied: 10_000_000 }])
  assert.deepEqual(implied.bids, [])
  assert.deepEqual(JSON.parse(orderbookJson(shown, 0)).asks, [{ price: 600_000, size: 5_000_000 }])
  const before = market.events.length
  market.place(buy('YES').at(0.6).size(12).by('bob').named('t'))
  board.follow(market.events.slice(before))
  assert.deepEqual(JSON.parse(impliedBookJson(shown, 0)).asks, [
    { price: 600_000, size: 3_000_000, implied: 0 },
  ])
})

test('implied levels that are updated by events equal the implied levels of a freshly loaded book', () => {
  const market = given({ market: { matching: 'complementary' } })
  const flow = randomFlow(market, randomFrom(5))
  const followed = makeBoard({
    isComplete: () => true,
    isCurrent: () => true,
    isStale: () => false,
  } as never)
  let read = 0
  for (let step = 0; step < 500; step++) {
    flow.step()
    followed.follow(market.events.slice(read))
    read = market.events.length
    const loaded = makeBoard({
      isComplete: () => true,
      isCurrent: () => true,
      isStale: () => false,
    } as never)
    loaded.load(viewOf(market.state))
    for (const outcome of OUTCOMES) {
      const levels = [followed, loaded].map(({ markets }) => {
        const book = bookOf(markets.get(market.marketId)!, outcome, true)
        return [book.levels(0), book.levels(1)]
      })
      assert.deepEqual(levels[0], levels[1])
      const [[bid] = [], [ask] = []] = levels[0]!
      assert.ok(bid === undefined || ask === undefined || bid[0] < ask[0], 'it is not crossed')
    }
  }
})

test('a market that is not complementary has no implied levels', () => {
  const market = given()
  const board = makeBoard({
    isComplete: () => true,
    isCurrent: () => true,
    isStale: () => false,
  } as never)
  market.place(buy('NO').at(0.4).size(10).named('a'))
  board.follow(market.events)
  const shown = board.markets.get(market.marketId)!
  assert.deepEqual(JSON.parse(impliedBookJson(shown, 0)).asks, [])
})
