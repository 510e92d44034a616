/** Tests post-only, IOC and FOK orders: the market decides each in one step. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MAKERS_PER_ORDER_MAX } from '#domain/limits.ts'
import { isRejection } from '#domain/rejection.ts'
import type { TimeInForce } from '#domain/time-in-force.ts'
import { NaiveBook } from '../../support/naive-book.ts'
import { buy, hashNamed, sell } from '../../support/orders.ts'
import { type Random, withSeeds } from '../../support/random.ts'
import { given, START_SEC, signed } from './market-fixture.ts'
import { randomFlow } from './random-flow.ts'

const accepted = (name: string, matches: number) => ({
  orderHash: hashNamed(name),
  status: 'accepted',
  matches,
  timestamp: START_SEC,
})

test('a post-only order rests, or is refused with the price at which it would have matched', () => {
  const market = given()
  market.place(sell('YES').at(0.43).size(5).named('a'))
  market.place(
    sell('YES')
      .at(0.42)
      .size(1)
      .until(START_SEC + 60)
      .named('b'),
  )
  market.said()
  const bid = buy('YES').at(0.45).size(3).named('t')
  assert.deepEqual(market.place(bid, 'POST_ONLY'), {
    rejected: 'POST_ONLY_WOULD_MATCH',
    field: 'postOnly',
    detail: 'the post-only order would match on arrival at the price 420000, so it was not placed',
  })
  // The sell `b` at 0.42 has expired, so only `a` at 0.43 can match.
  market.at(61)
  const late = market.place(bid, 'POST_ONLY')
  assert(isRejection(late) && late.detail?.includes('at the price 430000'))
  assert.deepEqual(market.said(), [], 'a refusal changes nothing')
  const lower = market.place(buy('YES').at(0.42).size(3).named('u'), 'POST_ONLY')
  assert.deepEqual(lower, { ...accepted('u', 0), timestamp: START_SEC + 61 })
  assert.deepEqual(market.said(), ['b ended: expired, 1 rested', 'u rests: buy YES 3 at 0.42'])
})

test('the unfilled part of an immediate-or-cancel order is cancelled and never rests in the book', () => {
  const market = given()
  market.place(sell('YES').at(0.4).size(4).by('ann').named('a'))
  market.said()
  const taker = buy('YES').at(0.45).size(10).by('bob').named('t')
  assert.deepEqual(market.place(taker, 'IOC'), { ...accepted('t', 1), filled: 4_000_000 })
  assert.deepEqual(market.said(), [
    't meets a 4 at 0.4, 0 left | 6 of it left',
    'a ended: filled, 0 rested',
    't ended: cancelled, 0 rested, 4 pending',
  ])
  assert.deepEqual(market.book(), [])
  const again = { ...accepted('t', 1), filled: 4_000_000, duplicate: true }
  for (const timeInForce of [undefined, 'IOC'] as const) {
    assert.deepEqual(market.place(taker, timeInForce), again, 'the first answer, if that was lost')
  }
  assert.deepEqual(market.said(), [])
  // The trade fails without a side at fault. The maker's order returns to the book, but the taker's order does not.
  market.report('t', { status: 'failed', fault: 'none' })
  assert.deepEqual(market.book(), ['YES sell 0.4 a 4'])
  assert.deepEqual(market.place(buy('YES').at(0.3).size(1).named('u'), 'IOC'), {
    rejected: 'ORDER_NOT_FILLED',
    field: 'timeInForce',
    detail: 'no part of the order could be filled on arrival, so the order was not placed',
  })
})

test('a fill-or-kill order is filled completely on arrival, or refused without any effect', () => {
  const market = given({ selfTrade: 'cancel-resting' })
  market.place(sell('YES').at(0.4).size(4).by('ann').named('a'))
  market.place(sell('YES').at(0.41).size(4).by('bob').named('own'))
  market.place(sell('YES').at(0.42).size(4).by('ann').named('c'))
  market.said()
  // Bob's buy cannot match Bob's own sell, which is named `own`.
  const taker = (size: number) => buy('YES').at(0.45).size(size).by('bob').named(`t${size}`)
  assert.deepEqual(market.place(taker(9), 'FOK'), {
    rejected: 'ORDER_NOT_FILLED',
    field: 'timeInForce',
    detail:
      'only 8000000 of 9000000 millionths of a share could be filled on arrival, so the order was not placed',
  })
  assert.deepEqual(market.said(), [])
  assert.deepEqual(market.place(taker(8), 'FOK'), { ...accepted('t8', 2), filled: 8_000_000 })
  assert.deepEqual(market.said(), [
    'own ended: self-trade, 4 rested',
    't8 meets a 4 at 0.4, 0 left; c 4 at 0.42, 0 left | 0 of it left',
    'a ended: filled, 0 rested',
    'c ended: filled, 0 rested',
    't8 ended: taken, 0 rested',
  ])
  const again = { ...accepted('t8', 2), filled: 8_000_000, duplicate: true }
  for (const timeInForce of [undefined, 'FOK', 'POST_ONLY'] as const) {
    assert.deepEqual(market.place(taker(8), timeInForce), again)
  }
  market.report('t8', { status: 'failed', fault: 'none' })
  assert.deepEqual(market.book(), ['YES sell 0.4 a 4'])
})

test('post-only orders never match on arrival, and IOC and FOK orders never rest, after any sequence of orders', () => {
  withSeeds([1, 2, 3], (random) => {
    const selfTrade = random.chance(0.5) ? 'allow' : 'cancel-resting'
    const market = given({ selfTrade })
    const flow = randomFlow(market, random)
    for (let step = 0; step < 4_000; step++) flow.step()
    const first = new Map<string, number>()
    const rested = new Set<string>()
    const seen: Record<TimeInForce, number> = { POST_ONLY: 0, IOC: 0, FOK: 0 }
    for (const event of market.events) {
      if (event.type === 'OrderRested') rested.add(event.orderHash)
      if (event.type !== 'OrdersMatched' || event.known) continue
      const { orderHash, size } = event.taker
      if (rested.has(orderHash)) continue
      first.set(orderHash, size - event.takerRemaining)
    }
    for (const [orderHash, timeInForce] of flow.manners) {
      seen[timeInForce]++
      const { size } = flow.placed.find((order) => order.orderHash === orderHash)!
      const { filled, matches } = flow.firstAnswers.get(orderHash)!
      if (timeInForce === 'POST_ONLY') assert.deepEqual([matches, filled], [0, undefined])
      else {
        assert(!rested.has(orderHash), `${timeInForce} rested`)
        assert.equal(filled, first.get(orderHash))
        assert(
          timeInForce === 'IOC' ? matches > 0 : filled === size,
          `${timeInForce} ${filled} of ${size}`,
        )
      }
    }
    assert(Math.min(...Object.values(seen)) > 20, JSON.stringify(seen))
  })
})

test('for every time in force, a market refuses the same orders as a simple reference model', () => {
  withSeeds([4, 5], (random) => {
    const selfTrade = random.chance(0.5) ? 'allow' : 'cancel-resting'
    const market = given({ selfTrade })
    const naive = new NaiveBook()
    const refused = { yes: 0, no: 0 }
    for (let count = 0; count < 1_500; count++) {
      const { order, timeInForce } = randomOrder(random, count)
      const taker = signed(order)
      const rules = { nowSec: START_SEC, selfTrade, makersMax: MAKERS_PER_ORDER_MAX } as const
      const fits = timeInForce === undefined || naive.accepts(taker, rules, timeInForce)
      const answer = market.place(order, timeInForce)
      assert.equal(!isRejection(answer), fits, `${timeInForce} ${JSON.stringify(answer)}`)
      refused[fits ? 'no' : 'yes']++
      if (!fits) continue
      const { left } = naive.match(taker, rules)
      const rests = timeInForce !== 'IOC' && timeInForce !== 'FOK' && left > 0
      if (rests) naive.rest({ ...order.fields, remaining: left as never })
    }
    const book = [...naive.bids, ...naive.asks].map(({ remaining }) => remaining)
    const [yes] = market.state.books
    assert.deepEqual(
      [...yes.orders(0), ...yes.orders(1)].map(({ remaining }) => remaining),
      book,
    )
    assert(refused.yes > 100 && refused.no > 100, JSON.stringify(refused))
  })
})

function randomOrder(random: Random, count: number) {
  const side = random.chance(0.5) ? buy : sell
  const order = side('YES')
    .at(0.5 + random.int(-6, 6) / 1_000)
    .size(random.int(1, 40))
    .by(random.pick(['ann', 'bob', 'cat']))
    .named(`o${count}`)
  const timeInForce = random.chance(0.6)
    ? random.pick(['POST_ONLY', 'IOC', 'FOK'] as const)
    : undefined
  return { order, timeInForce }
}
