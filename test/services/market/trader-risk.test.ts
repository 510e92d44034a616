/**
 * Tests the limits for traders that do not depend on funds: pauses, pending trades, and the minimum value of an order.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PAUSED_TRADERS_MAX } from '#domain/limits.ts'
import { ONE } from '#domain/money.ts'
import { TraderPauses } from '#domain/trader-pauses.ts'
import type { TradeReport } from '#protocol/market.ts'
import { buy, sell, traderNamed } from '../../support/orders.ts'
import { randomFrom } from '../../support/random.ts'
import { given, START_SEC } from './market-fixture.ts'
import { randomFlow } from './random-flow.ts'

const CHAIN = 31_337
const ann = traderNamed('ann')
const bob = traderNamed('bob')
const free = { minNotional: 0, pendingTradesMax: 1_000_000 }
const failedBy = (fault: TradeReport['fault']) => ({ status: 'failed', fault }) as const
const untilMs = (pauses: TraderPauses, trader = ann) => pauses.of(CHAIN, trader)?.untilMs

test('the pause of a trader at fault doubles with each further fault, up to the maximum', () => {
  const pauses = new TraderPauses({ firstMs: 10_000, maxMs: 60_000 })
  const ends: (number | undefined)[] = []
  for (let atMs = 0; ends.length < 5; atMs = untilMs(pauses)!) {
    pauses.fault(CHAIN, ann, atMs)
    ends.push(untilMs(pauses)! - atMs)
  }
  assert.deepEqual(ends, [10_000, 20_000, 40_000, 60_000, 60_000])
  assert.equal(untilMs(pauses, bob), undefined)
  assert.equal(pauses.of(1, ann), undefined, 'another chain')
})

test('several trades that fail during one pause of a trader count as one fault', () => {
  const pauses = new TraderPauses({ firstMs: 10_000, maxMs: 60_000 })
  for (let atMs = 0; atMs < 10_000; atMs += 10) pauses.fault(CHAIN, ann, atMs)
  assert.deepEqual([untilMs(pauses), pauses.of(CHAIN, ann)?.faults], [10_000, 1])
})

test('after twice the maximum pause without a fault, a trader’s earlier faults are forgotten', () => {
  const pauses = new TraderPauses({ firstMs: 10_000, maxMs: 60_000 })
  pauses.fault(CHAIN, ann, 0)
  pauses.fault(CHAIN, ann, 120_000)
  assert.equal(untilMs(pauses), 140_000, 'not yet')
  pauses.fault(CHAIN, ann, 240_001)
  assert.equal(untilMs(pauses), 250_001)
  pauses.sweep(360_001)
  assert.equal(pauses.all().length, 1)
  pauses.sweep(360_002)
  assert.deepEqual(pauses.all(), [])
})

test('market threads agree on a trader’s pause even if reports about it arrive in the wrong sequence', () => {
  const make = () => new TraderPauses({ firstMs: 10_000, maxMs: 60_000 })
  const [one, two] = [make(), make()]
  one.fault(CHAIN, ann, 0)
  const first = one.all()
  one.fault(CHAIN, ann, 10_000)
  const second = one.all()
  assert.equal(two.merge(second).length, 1)
  assert.deepEqual(two.merge(first), [], 'the later one stays')
  assert.deepEqual(two.merge(second), [], 'and is news once')
  assert.deepEqual(two.all(), one.all())
})

test('pauses are remembered only for a limited number of traders, and the oldest are forgotten first', () => {
  const pauses = new TraderPauses({ firstMs: 10_000, maxMs: 60_000 })
  for (let n = 0; n <= PAUSED_TRADERS_MAX; n++) pauses.fault(CHAIN, traderNamed(`t${n}`), n)
  assert.equal(pauses.all().length, PAUSED_TRADERS_MAX)
  assert.equal(untilMs(pauses, traderNamed('t0')), undefined)
  assert.notEqual(untilMs(pauses, traderNamed('t1')), undefined)
})

function pausing() {
  const pauses = new TraderPauses({ firstMs: 10_000, maxMs: 60_000 })
  const market = given({ risk: { ...free, pauses } })
  market.place(sell('YES').at(0.4).size(10).by('bob').named('s'))
  market.place(buy('YES').at(0.4).size(10).by('ann').named('b'))
  market.place(sell('NO').at(0.9).size(1).by('bob').named('other'))
  market.said()
  return { market, pauses }
}

test('a trader at fault is paused: orders are refused for a while, and cancels work', () => {
  const { market, pauses } = pausing()
  const order = buy('NO').at(0.2).size(1).by('ann')
  market.place(order.named('before'))
  const answer = market.report('b', failedBy('buyer'))
  const pause = pauses.of(CHAIN, ann)
  assert.deepEqual(answer, { status: 'failed', paused: [pause] })
  assert.deepEqual(market.report('b', failedBy('buyer')), answer, 'told again to who asks again')
  market.at(3)
  assert.deepEqual(market.place(order.named('n')), {
    rejected: 'TRADER_PAUSED',
    field: 'order.trader',
    detail:
      "a trade failed, or would have failed, by the trader's fault: their new orders are rejected " +
      'for 7 more seconds, ' +
      `until ${new Date((START_SEC + 10) * 1_000).toISOString()}`,
    retryAfterSec: 7,
  })
  assert(
    'status' in market.place(sell('NO').at(0.9).size(1).by('bob').named('bobs')),
    'not the other',
  )
  const again = market.place(order.named('before'))
  assert.equal('rejected' in again && again.rejected, 'ORDER_CLOSED', 'first answers stay')
  market.at(10)
  assert('status' in market.place(order.named('n')), 'the pause is over')
})

test('a trader who is paused can cancel an open order', () => {
  const { market, pauses } = pausing()
  pauses.fault(CHAIN, bob, START_SEC * 1_000)
  assert('status' in market.cancel('other', 'sell'))
  assert('status' in market.cancel('s', 'sell'), 'also of what is not settled')
})

test('no pause applies to a seller who lacks only shares that another trader failed to deliver', () => {
  const { market, pauses } = pausing()
  market.place(sell('YES').at(0.5).size(10).by('ann').named('r'))
  market.place(buy('YES').at(0.5).size(10).by('cat').named('c'))
  market.report('b', failedBy('seller'))
  market.report('c', failedBy('seller'))
  assert.deepEqual(
    pauses.all().map(({ trader }) => trader),
    [bob],
  )
})

test('after a restart, a replay of the log restores the pauses of all traders', () => {
  const terms = { firstMs: 1_000, maxMs: 60_000 }
  const risk = { ...free, pauses: new TraderPauses(terms) }
  const market = given({ risk })
  const flow = randomFlow(market, randomFrom(5))
  for (let step = 0; step < 2_000; step++) flow.step()
  const before = risk.pauses.all()
  assert(before.some(({ faults }) => faults > 2))
  market.replayed()
  assert.deepEqual(risk.pauses.all(), before, 'over what is known')
  const fresh = new TraderPauses(terms)
  Object.assign(risk, { pauses: fresh })
  market.replayed()
  const sorted = (pauses: typeof before) =>
    pauses.toSorted((a, b) => (a.trader < b.trader ? -1 : 1))
  assert.deepEqual(sorted(fresh.all()), sorted(before), 'and from nothing')
})

test('a trader with the maximum number of unsettled trades cannot place orders until some trades are decided', () => {
  const market = given({ risk: { ...free, pendingTradesMax: 2 } })
  const offer = sell('YES').at(0.4).by('bob')
  market.place(offer.size(10).named('s'))
  market.place(buy('YES').at(0.4).size(1).by('ann').named('b1'))
  market.place(buy('YES').at(0.4).size(1).by('cat').named('b2'))
  assert.deepEqual(market.place(offer.named('more')), {
    rejected: 'TOO_MANY_PENDING_TRADES',
    field: 'order.trader',
    detail:
      'the trader has 2 or more unsettled trades, which is the maximum: retry when some of them have settled',
  })
  assert('status' in market.place(buy('YES').at(0.4).size(1).by('dan').named('b3')), 'others trade')
  assert.deepEqual(market.book(), ['YES sell 0.4 s 7'], 'with his order, which stays')
  market.report('b1', { status: 'confirmed' })
  assert('rejected' in market.place(offer.named('more')), 'still two')
  market.report('b2', failedBy('buyer'))
  assert('status' in market.place(offer.named('more')))
})

test('an order below the minimum value is refused, but the unfilled part of a larger order may be smaller', () => {
  const market = given({ risk: { ...free, minNotional: ONE } })
  const least = buy('YES').at(0.3).exactly(3_333_334).by('ann')
  assert.deepEqual(market.place(least.exactly(3_333_333).named('small')), {
    rejected: 'NOTIONAL_TOO_SMALL',
    field: 'order.size',
    detail: 'the order value (price × size) must be at least 1000000 millionths of the stablecoin',
  })
  assert('status' in market.place(least.named('a')))
  assert(
    'status' in
      market.place(
        sell('YES')
          .at(0.3)
          .exactly(3_333_333 + ONE)
          .named('s'),
      ),
  )
  assert.equal(market.state.books[0].count, 1, 'a unit less than it rests')
})
