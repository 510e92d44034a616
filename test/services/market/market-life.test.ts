import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Outcome } from '#domain/order.ts'
import { pageOfOrders } from '#services/market/host/open-orders.ts'
import { buy, nameOf, sell, traderNamed } from '../../support/orders.ts'
import { given, MARKET_ID, START_SEC } from './market-fixture.ts'

const expire = (market: ReturnType<typeof given>) =>
  market.ask('Expire', { marketId: market.marketId })

test('a market can be opened only once', () => {
  const market = given()
  assert.deepEqual(market.open(), { seq: 1 })
  assert.deepEqual(market.open(), { seq: 1 })
  assert.equal(market.events.length, 1)
})

test('orders leave the book at their expiration, and not before', () => {
  const market = given()
  market.place(
    buy('YES')
      .until(START_SEC + 100)
      .named('a'),
  )
  market.place(
    sell('NO')
      .until(START_SEC + 101)
      .named('b'),
  )
  market.place(sell('NO').named('c'))
  market.said()
  market.at(99)
  expire(market)
  assert.deepEqual(market.said(), [])
  market.at(100)
  expire(market)
  assert.deepEqual(market.said(), ['a ended: expired, 1 rested'])
  market.at(5_000)
  expire(market)
  assert.deepEqual(market.said(), ['b ended: expired, 1 rested'])
})

test('a market closes at its expiration, and a single event ends all of its orders', () => {
  const market = given()
  market.place(buy('YES').named('a'))
  market.place(sell('NO').named('b'))
  market.said()
  market.at(999_999)
  expire(market)
  assert.deepEqual(market.said(), [])
  market.at(1_000_000)
  expire(market)
  expire(market)
  assert.deepEqual(market.said(), ['market closed: expired'])
  assert.deepEqual(market.book(), [])
})

test('closing a market twice has no further effect, and an expired market can be resolved later', () => {
  const market = given()
  const close = (reason: 'expired' | 'resolved' | 'withdrawn') =>
    market.ask('CloseMarket', { marketId: MARKET_ID, reason })
  assert.deepEqual(close('expired'), { seq: 2 })
  assert.deepEqual(close('expired'), { seq: 2 })
  assert.deepEqual(close('withdrawn'), { seq: 2 })
  assert.deepEqual(close('resolved'), { seq: 3 })
  assert.deepEqual(close('resolved'), { seq: 3 })
  assert.deepEqual(close('expired'), { seq: 3 })
  assert.equal(market.state.closed, 'resolved')
})

test('a market snapshot lists the price levels of both outcomes, best price first', () => {
  const market = given()
  market.place(buy('YES').at(0.4).size(1).named('a'))
  market.place(buy('YES').at(0.41).size(2).named('b'))
  market.place(buy('YES').at(0.41).size(3).named('c'))
  market.place(sell('YES').at(0.5).size(4).named('d'))
  market.place(sell('NO').at(0.7).size(5).named('e'))
  const view = market.ask('Snapshot', { marketId: MARKET_ID })
  assert('market' in view)
  const { bids, asks, seq, closed } = view
  assert.deepEqual(
    { bids, asks, seq, closed },
    {
      bids: [
        [
          [410_000, 5_000_000n],
          [400_000, 1_000_000n],
        ],
        [],
      ],
      asks: [[[500_000, 4_000_000n]], [[700_000, 5_000_000n]]],
      seq: 6,
      closed: undefined,
    },
  )
})

test('the list of a trader’s open orders omits expired orders', () => {
  const market = given()
  market.place(buy('YES').by('ann').named('a'))
  market.place(
    buy('NO')
      .by('ann')
      .until(START_SEC + 60)
      .named('old'),
  )
  market.place(buy('NO').by('ann').named('b'))
  market.place(buy('NO').by('bob').named('c'))
  const books = market.state.books.map((book, at) => {
    return { marketId: MARKET_ID, outcome: at as Outcome, book }
  })
  const open = pageOfOrders(books, traderNamed('ann'), { limit: 10 }, START_SEC + 60)
  assert.equal(open.count, 2)
  assert.deepEqual(
    open.orders.map(({ orderHash, outcome, marketId }) => [nameOf(orderHash), outcome, marketId]),
    [
      ['a', 0, MARKET_ID],
      ['b', 1, MARKET_ID],
    ],
  )
})
