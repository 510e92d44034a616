import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Address } from '#domain/ids.ts'
import {
  MAKERS_PER_EVENT_MAX,
  MAKERS_PER_ORDER_MAX,
  ORDERS_PER_TRADER_MAX,
} from '#domain/limits.ts'
import { buy, hashNamed, sell } from '../../support/orders.ts'
import { given, START_SEC, signed } from './market-fixture.ts'

const accepted = (name: string, matches: number, afterSec = 0) => ({
  orderHash: hashNamed(name),
  status: 'accepted',
  matches,
  timestamp: START_SEC + afterSec,
})
const again = (name: string, matches: number, afterSec = 0) => ({
  ...accepted(name, matches, afterSec),
  duplicate: true,
})

test('an order without a match rests in the book', () => {
  const market = given()
  assert.deepEqual(market.place(buy('YES').at(0.42).size(10).named('a')), accepted('a', 0))
  assert.deepEqual(market.said(), ['a rests: buy YES 10 at 0.42'])
  assert.deepEqual(market.book(), ['YES buy 0.42 a 10'])
})

test('a taker matches the best price first at the makers’ prices, and the unfilled part rests in the book', () => {
  const market = given()
  market.place(sell('YES').at(0.41).size(10).named('a'))
  market.place(sell('YES').at(0.4).size(5).named('b'))
  market.place(sell('YES').at(0.5).size(9).named('c'))
  market.said()
  assert.deepEqual(market.place(buy('YES').at(0.45).size(20).named('t')), accepted('t', 2))
  assert.deepEqual(market.said(), [
    't meets b 5 at 0.4, 0 left; a 10 at 0.41, 0 left | 5 of it left',
    'b ended: filled, 0 rested',
    'a ended: filled, 0 rested',
    't rests: buy YES 5 at 0.45',
  ])
  assert.deepEqual(market.book(), ['YES buy 0.45 t 5', 'YES sell 0.5 c 9'])
  assert.equal(market.state.unsettled, 2)
})

test('an order that is filled on arrival never enters the book', () => {
  const market = given()
  market.place(sell('NO').at(0.3).size(10).named('a'))
  market.said()
  assert.deepEqual(market.place(buy('NO').at(0.3).size(4).named('t')), accepted('t', 1))
  assert.deepEqual(market.said(), [
    't meets a 4 at 0.3, 6 left | 0 of it left',
    't ended: filled, 0 rested',
  ])
  assert.deepEqual(market.book(), ['NO sell 0.3 a 6'])
})

test('an order for YES never matches an order for NO in a market without complementary matching', () => {
  const market = given()
  market.place(sell('NO').at(0.3).named('a'))
  assert.deepEqual(market.place(buy('YES').at(0.9).named('t')), accepted('t', 0))
})

const refusals: [
  name: string,
  after: (market: ReturnType<typeof given>) => unknown,
  why: object,
][] = [
  [
    'an expiration less than 60 s away',
    (market) => market.place(buy('YES').until(START_SEC + 59)),
    { rejected: 'EXPIRATION_TOO_SOON', field: 'order.expiration' },
  ],
  [
    'a closed market',
    (market) => {
      market.ask('CloseMarket', { marketId: market.marketId, reason: 'resolved' })
      return market.place(buy('YES'))
    },
    { rejected: 'MARKET_CLOSED' },
  ],
  [
    'an expired market whose expiry timer has not run yet',
    (market) => {
      market.at(1_000_000)
      return market.place(buy('YES'))
    },
    { rejected: 'MARKET_CLOSED' },
  ],
  [
    'a price outside the grid',
    (market) => market.place(buy('YES').at(1)),
    { rejected: 'PRICE_OUT_OF_RANGE', field: 'order.price' },
  ],
  [
    'a size of zero',
    (market) => market.place(buy('YES').size(0)),
    { rejected: 'SIZE_NOT_POSITIVE', field: 'order.size' },
  ],
  [
    'a fee recipient',
    (market) =>
      market.ask('PlaceOrder', {
        order: { ...signed(buy('YES')), makerFeeRecipient: `0x${'1'.repeat(40)}` as Address },
      }),
    {
      rejected: 'INVALID_FIELD',
      field: 'order.makerFeeRecipient',
      detail: 'makerFeeRecipient must be the zero address',
    },
  ],
]
for (const [name, act, why] of refusals) {
  test(`an order with ${name} is refused`, () => {
    const market = given()
    assert.deepEqual(act(market), why)
    assert.deepEqual(market.book(), [])
  })
}

test('an order that expires in exactly 60 s, the minimum, is accepted', () => {
  const market = given()
  const answer = market.place(
    buy('YES')
      .until(START_SEC + 60)
      .named('a'),
  )
  assert.deepEqual(answer, accepted('a', 0))
})

test('when the two books of a market have the maximum number of orders, new orders are refused', () => {
  const market = given({ ordersMax: 2 })
  market.place(buy('YES').named('a'))
  market.place(buy('NO').named('b'))
  const full = {
    rejected: 'OVERLOADED',
    detail: 'the market has the maximum number of open orders: retry later',
  }
  assert.deepEqual(market.place(buy('YES').named('c')), full)
  market.cancel('b', 'buy')
  assert.deepEqual(market.place(buy('YES').named('c')), accepted('c', 0))
})

test('a market refuses a trader’s orders above the limit of open orders per trader', () => {
  const market = given()
  for (let n = 0; n < ORDERS_PER_TRADER_MAX; n++) {
    market.place(
      buy(n % 2 === 0 ? 'YES' : 'NO')
        .by('ann')
        .named(`a${n}`),
    )
  }
  const answer = market.place(buy('YES').by('ann').named('more'))
  assert.equal('rejected' in answer && answer.rejected, 'RATE_LIMITED')
  assert.deepEqual(market.place(buy('YES').by('bob').named('b')), accepted('b', 0))
})

test('a resubmitted order gets its first answer, whatever happened to the order', () => {
  const market = given()
  const resting = buy('YES').at(0.4).size(10).named('a')
  market.place(resting)
  market.at(5)
  assert.deepEqual(market.place(resting), again('a', 0), 'it rests')
  market.place(sell('YES').at(0.4).size(3).named('s'))
  assert.deepEqual(market.place(resting), again('a', 0), 'it rests in part')
  const taker = buy('YES').at(0.5).size(1).named('t')
  market.place(sell('YES').at(0.5).size(1).named('m'))
  assert.deepEqual(market.place(taker), accepted('t', 1, 5))
  market.at(9)
  assert.deepEqual(market.place(taker), again('t', 1, 5), 'it was filled')
  market.place(sell('YES').at(0.4).size(7).named('s2'))
  assert.deepEqual(market.place(resting), again('a', 0), 'it was filled after it had rested')
  const before = market.hash()
  market.place(resting)
  market.place(taker)
  assert.equal(market.hash(), before)
})

test('a cancelled order cannot be placed again', () => {
  const market = given()
  const order = buy('YES').named('a')
  market.place(order)
  market.cancel('a', 'buy')
  assert.deepEqual(market.place(order), { rejected: 'ORDER_CLOSED' })
})

test('an expired order cannot be placed again, before and after the expiry timer has run', () => {
  const market = given()
  const order = buy('YES')
    .until(START_SEC + 100)
    .named('a')
  market.place(order)
  market.at(100)
  market.said()
  assert.deepEqual(market.place(order), { rejected: 'ORDER_CLOSED' })
  assert.deepEqual(market.said(), ['a ended: expired, 1 rested'])
  assert.deepEqual(market.place(order), { rejected: 'ORDER_CLOSED' })
  assert.deepEqual(market.said(), [])
})

test('a resubmitted order gets its first answer even shortly before its expiration or after its market has closed', () => {
  const market = given()
  const filled = sell('YES')
    .at(0.4)
    .size(1)
    .until(START_SEC + 100)
    .named('a')
  market.place(filled)
  market.place(buy('YES').at(0.4).size(1).named('b'))
  market.at(90)
  assert.deepEqual(market.place(filled), again('a', 0), 'too late for a new order')
  market.ask('CloseMarket', { marketId: market.marketId, reason: 'withdrawn' })
  assert.deepEqual(market.place(filled), again('a', 0), 'the market is closed')
})

test('an expired maker is not matched, before and after the expiry timer has run', () => {
  const market = given()
  market.place(
    sell('YES')
      .at(0.4)
      .size(5)
      .until(START_SEC + 100)
      .named('old'),
  )
  market.place(sell('YES').at(0.4).size(5).named('new'))
  market.at(100)
  market.said()
  market.place(buy('YES').at(0.4).size(5).named('t'))
  assert.deepEqual(market.said(), [
    'old ended: expired, 5 rested',
    't meets new 5 at 0.4, 0 left | 0 of it left',
    'new ended: filled, 0 rested',
    't ended: filled, 0 rested',
  ])
})

test('trades of a trader with themselves are allowed by default', () => {
  const market = given()
  market.place(sell('YES').at(0.4).by('ann').named('a'))
  assert.deepEqual(market.place(buy('YES').at(0.4).by('ann').named('t')), accepted('t', 1))
})

test('with self-trade mode cancel-resting, a taker’s own resting orders are cancelled instead of matched', () => {
  const market = given({ selfTrade: 'cancel-resting' })
  market.place(sell('YES').at(0.4).size(3).by('ann').named('own'))
  market.place(sell('YES').at(0.4).size(5).by('bob').named('other'))
  market.said()
  market.place(buy('YES').at(0.4).size(5).by('ann').named('t'))
  assert.deepEqual(market.said(), [
    'own ended: self-trade, 3 rested',
    't meets other 5 at 0.4, 0 left | 0 of it left',
    'other ended: filled, 0 rested',
    't ended: filled, 0 rested',
  ])
  assert.deepEqual(market.place(sell('YES').at(0.4).size(3).by('ann').named('own')), {
    rejected: 'ORDER_CLOSED',
  })
})

function crowd(count: number, until = 2_000_000_000) {
  const market = given()
  for (let n = 0; n < count; n++) {
    market.place(
      sell('YES')
        .at(0.4)
        .size(1)
        .by(`t${n % 7}`)
        .until(until)
        .named(`m${n}`),
    )
  }
  market.said()
  return market
}

test('a match with very many makers is written to the log as several events', () => {
  const count = MAKERS_PER_EVENT_MAX + 5
  const market = crowd(count)
  assert.deepEqual(
    market.place(
      buy('YES')
        .at(0.4)
        .size(count + 1)
        .named('t'),
    ),
    accepted('t', count),
  )
  const matches = market.events.filter((event) => event.type === 'OrdersMatched')
  assert.deepEqual(
    matches.map(({ fills, takerRemaining, known }) => [fills.length, takerRemaining / 1e6, known]),
    [
      [MAKERS_PER_EVENT_MAX, 6, undefined],
      [5, 1, true],
    ],
  )
  assert.equal(market.events.at(-1)?.type, 'OrderRested')
  assert.deepEqual(
    market.place(
      buy('YES')
        .at(0.4)
        .size(count + 1)
        .named('t'),
    ),
    again('t', count),
  )
})

test('one order matches a limited number of makers, and the rest of the order is cancelled', () => {
  const market = crowd(MAKERS_PER_ORDER_MAX + 1)
  const order = buy('YES')
    .at(0.4)
    .size(MAKERS_PER_ORDER_MAX + 1)
    .named('t')
  assert.deepEqual(market.place(order), accepted('t', MAKERS_PER_ORDER_MAX))
  assert.equal(market.said().at(-1), 't ended: cancelled, 0 rested, 10000 pending')
  assert.equal(market.book().length, 1)
  assert.deepEqual(market.place(order), {
    ...accepted('t', MAKERS_PER_ORDER_MAX),
    filled: MAKERS_PER_ORDER_MAX * 1_000_000,
    duplicate: true,
  })
})

test('an order that meets too many expired orders is refused as OVERLOADED and can be retried', () => {
  const market = crowd(MAKERS_PER_ORDER_MAX + 1, START_SEC + 100)
  market.at(100)
  const order = buy('YES').at(0.4).named('t')
  const answer = market.place(order)
  assert.equal('rejected' in answer && answer.rejected, 'OVERLOADED')
  assert(market.events.every((event) => !JSON.stringify(event).includes(hashNamed('t'))))
  assert.deepEqual(market.place(order), accepted('t', 0, 100), 'the next attempt finds them gone')
})
