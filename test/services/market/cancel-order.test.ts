import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ONE } from '#domain/money.ts'
import { YES } from '#domain/order.ts'
import { buy, hashNamed, nameOf, sell, traderNamed } from '../../support/orders.ts'
import { given, START_SEC } from './market-fixture.ts'

const cancelled = (name: string) => ({ status: 'cancelled', orderHash: hashNamed(name) })

test('a cancel removes the order from the book, and its answer names the quantity still pending settlement', () => {
  const market = given()
  market.place(buy('YES').at(0.4).size(10).named('a'))
  market.place(sell('YES').at(0.4).size(4).named('s'))
  market.said()
  const pendingSize = 4 * ONE
  assert.deepEqual(market.cancel('a', 'buy'), { ...cancelled('a'), pendingSize })
  assert.deepEqual(market.said(), ['a ended: cancelled, 6 rested, 4 pending'])
  assert.deepEqual(market.book(), [])
})

test('a cancel that names the wrong side of an order is refused, even after the order has ended', () => {
  const market = given()
  market.place(sell('NO').named('a'))
  assert.deepEqual(market.cancel('a', 'buy'), { rejected: 'ORDER_NOT_FOUND' })
  assert.deepEqual(market.cancel('a', 'sell'), cancelled('a'))
  assert.deepEqual(market.cancel('a', 'buy'), { rejected: 'ORDER_NOT_FOUND' })
  assert.deepEqual(market.cancel('a', 'sell'), { rejected: 'ORDER_CLOSED' })
})

test('a cancel of an unknown order hash is refused because the order is not found', () => {
  assert.deepEqual(given().cancel('nobody', 'buy'), { rejected: 'ORDER_NOT_FOUND' })
})

test('a cancel that names a trader is refused if the order belongs to another trader', () => {
  const market = given()
  market.place(buy('YES').by('ann').named('a'))
  assert.deepEqual(market.cancel('a', 'buy', 'bob'), { rejected: 'NOT_ORDER_OWNER' })
  assert.deepEqual(market.book().length, 1)
  assert.deepEqual(market.cancel('a', 'buy', 'ann'), cancelled('a'))
  assert.deepEqual(market.cancel('a', 'buy', 'bob'), { rejected: 'NOT_ORDER_OWNER' })
  assert.deepEqual(market.cancel('a', 'buy', 'ann'), { rejected: 'ORDER_CLOSED' })
})

test('a cancel is refused with ORDER_CLOSED if the order has expired, or is filled and settled', () => {
  const market = given()
  market.place(buy('YES').at(0.4).size(1).named('filled'))
  market.place(sell('YES').at(0.4).size(1).named('taker'))
  market.report('taker', { status: 'confirmed' })
  assert.deepEqual(market.cancel('filled', 'buy'), { rejected: 'ORDER_CLOSED' })
  assert.deepEqual(market.cancel('taker', 'sell'), { rejected: 'ORDER_CLOSED' })
  market.place(
    buy('YES')
      .until(START_SEC + 60)
      .named('old'),
  )
  market.at(60)
  market.said()
  assert.deepEqual(market.cancel('old', 'buy'), { rejected: 'ORDER_CLOSED' })
  assert.deepEqual(market.said(), ['old ended: expired, 1 rested'])
})

test('in a closed market a cancel is refused, and a cancel of all orders finds none', () => {
  const market = given()
  market.place(buy('YES').named('a'))
  market.place(buy('YES').named('b'))
  market.cancel('b', 'buy')
  market.at(1_000_000)
  assert.deepEqual(market.cancel('b', 'buy'), { rejected: 'ORDER_CLOSED' })
  assert.deepEqual(market.cancel('a', 'buy'), { rejected: 'MARKET_CLOSED' })
  const all = market.ask('CancelOrders', {
    marketId: market.marketId,
    trader: traderNamed('somebody'),
  })
  assert.deepEqual(all, { orderHashes: [], pending: [] })
})

test('a cancel of all orders of a trader includes both outcomes, and no orders of other traders', () => {
  const market = given()
  market.place(buy('YES').at(0.1).by('ann').named('a'))
  market.place(sell('YES').at(0.9).by('ann').named('b'))
  market.place(buy('NO').at(0.1).by('ann').named('c'))
  market.place(
    buy('NO')
      .at(0.1)
      .by('ann')
      .until(START_SEC + 60)
      .named('old'),
  )
  market.place(buy('NO').at(0.1).by('bob').named('d'))
  market.at(60)
  market.said()
  const answer = market.ask('CancelOrders', {
    marketId: market.marketId,
    trader: traderNamed('ann'),
  })
  assert('orderHashes' in answer)
  assert.deepEqual(answer.orderHashes.map(nameOf), ['a', 'b', 'c'])
  assert.deepEqual(market.said(), [
    'a ended: cancelled, 1 rested',
    'b ended: cancelled, 1 rested',
    'c ended: cancelled, 1 rested',
    'old ended: expired, 1 rested',
  ])
  assert.deepEqual(market.book(), ['NO buy 0.1 d 1'])
})

test('a cancel of a list of orders cancels only the trader’s own open orders', () => {
  const market = given()
  market.place(buy('YES').by('ann').named('a'))
  market.place(buy('YES').by('ann').named('b'))
  market.place(buy('YES').by('bob').named('c'))
  const answer = market.ask('CancelOrders', {
    marketId: market.marketId,
    trader: traderNamed('ann'),
    orderHashes: ['b', 'c', 'nobody'].map(hashNamed),
  })
  assert.deepEqual(answer, { orderHashes: [hashNamed('b')], pending: [] })
  assert.deepEqual(market.book(), ['YES buy 0.5 a 1', 'YES buy 0.5 c 1'])
})

test('an order that is cancelled for lack of funds ends with the reason unfunded', () => {
  const market = given()
  market.place(buy('YES').by('ann').named('a'))
  market.place(buy('YES').by('ann').named('b'))
  market.said()
  const answer = market.ask('CancelOrders', {
    marketId: market.marketId,
    trader: traderNamed('ann'),
    orderHashes: [hashNamed('b')],
    reason: 'unfunded',
  })
  assert.deepEqual(answer, { orderHashes: [hashNamed('b')], pending: [] })
  assert.deepEqual(market.said(), ['b ended: unfunded, 1 rested'])
  assert.deepEqual(market.book(), ['YES buy 0.5 a 1'])
})

test('a query for an order gets the same answer as a resubmission, or unknown for a new order', () => {
  const market = given()
  market.place(buy('YES').named('open'))
  market.place(buy('YES').named('gone'))
  market.cancel('gone', 'buy')
  const recall = (name: string) =>
    market.ask('RecallOrder', {
      marketId: market.marketId,
      orderHash: hashNamed(name),
      outcome: YES,
    })
  const open = recall('open')
  assert('duplicate' in open && open.duplicate === true)
  assert.deepEqual(recall('gone'), { rejected: 'ORDER_CLOSED' })
  assert.deepEqual(recall('new'), { unknown: true })
})
