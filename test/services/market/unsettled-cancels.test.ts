import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { OrderHash } from '#domain/ids.ts'
import { ONE } from '#domain/money.ts'
import type { TradeReport } from '#protocol/market.ts'
import { buy, hashNamed, nameOf, sell, traderNamed } from '../../support/orders.ts'
import { withSeeds } from '../../support/random.ts'
import { given, START_SEC } from './market-fixture.ts'
import { randomFlow } from './random-flow.ts'
import { stateHashOf } from './state-hash.ts'

const closed = { rejected: 'ORDER_CLOSED' }
const cancelled = (name: string, pending?: number) => ({
  status: 'cancelled',
  orderHash: hashNamed(name),
  ...(pending === undefined ? {} : { pendingSize: pending * ONE }),
})
const confirmed = { status: 'confirmed', txHash: '0x01' } as const
const failedBy = (fault: TradeReport['fault']) => ({ status: 'failed', fault }) as const

/** Makes a market in which Bob sells 10 and Ann's buy of 10 takes all of it. */
function filled() {
  const market = given()
  market.place(sell('YES').at(0.4).size(10).by('bob').named('s'))
  market.place(buy('YES').at(0.5).size(10).by('ann').named('b'))
  market.said()
  return market
}

for (const [name, side, fault] of [
  ['s', 'sell', 'buyer'],
  ['b', 'buy', 'seller'],
] as const) {
  test(`a filled ${side} order that was cancelled regains no quantity if its trade fails`, () => {
    const market = filled()
    assert.deepEqual(market.cancel(name, side), cancelled(name, 10))
    assert.deepEqual(market.said(), [`${name} ended: cancelled, 0 rested, 10 pending`])
    assert.deepEqual(market.cancel(name, side), closed, 'once')
    assert.deepEqual(market.said(), [])
    market.report('b', failedBy(fault))
    assert.deepEqual(market.said(), ['TradeFailed 3-0 0xaa'])
    assert.deepEqual(market.book(), [])
    const again = side === 'buy' ? buy('YES').at(0.5).by('ann') : sell('YES').at(0.4).by('bob')
    assert.deepEqual(market.place(again.size(10).named(name)), closed)
    assert.equal(stateHashOf(market.replayed()), market.hash())
  })
}

test('if one order of a pending trade is cancelled and the trade fails, the other order regains quantity', () => {
  const market = filled()
  market.cancel('b', 'buy')
  market.report('b', failedBy('none'))
  assert.deepEqual(market.book(), ['YES sell 0.4 s 10'])
})

test('a cancelled order stays cancelled when its trade is confirmed', () => {
  const market = filled()
  market.cancel('s', 'sell')
  market.said()
  assert.deepEqual(market.report('b', confirmed), { status: 'confirmed' })
  assert.deepEqual(market.said(), ['TradeConfirmed 3-0 0x01'])
  assert.deepEqual(market.cancel('s', 'sell'), closed)
  assert.equal(market.state.pending.size, 0)
})

test('after a cancel, a partly filled order ends and regains no quantity from a failed fill', () => {
  const market = given()
  market.place(sell('YES').at(0.4).size(10).by('bob').named('s'))
  market.place(buy('YES').at(0.5).size(3).by('ann').named('b1'))
  market.place(buy('YES').at(0.5).size(4).by('eve').named('b2'))
  market.report('b1', confirmed)
  market.said()
  assert.deepEqual(market.cancel('s', 'sell'), cancelled('s', 4))
  assert.deepEqual(market.said(), ['s ended: cancelled, 3 rested, 4 pending'])
  market.report('b2', failedBy('buyer'))
  assert.deepEqual(market.book(), [])
})

test('a filled order can be cancelled after a reorg has reverted its trade', () => {
  const market = filled()
  market.report('b', confirmed)
  assert.deepEqual(market.cancel('s', 'sell'), closed, 'settled')
  market.report('b', { status: 'reverted', txHash: '0x01' })
  assert.equal(stateHashOf(market.replayed()), market.hash(), 'also in a replay')
  assert.deepEqual(market.cancel('s', 'sell'), cancelled('s', 10))
  market.report('b', failedBy('buyer'))
  assert.deepEqual(market.book(), [])
})

test('a cancel of a filled order is refused for a wrong side or trader, or after expiry', () => {
  const market = given()
  const selling = sell('YES').at(0.4).size(1).by('bob')
  market.place(selling.until(START_SEC + 500).named('short'))
  market.place(selling.named('long'))
  market.place(buy('YES').at(0.4).size(2).by('ann').named('b'))
  assert.deepEqual(market.cancel('long', 'buy'), { rejected: 'ORDER_NOT_FOUND' })
  assert.deepEqual(market.cancel('long', 'sell', 'ann'), { rejected: 'NOT_ORDER_OWNER' })
  market.at(500)
  assert.deepEqual(market.cancel('short', 'sell'), closed, 'expired: it cannot come back')
  market.at(1_000_000)
  assert.deepEqual(market.cancel('long', 'sell'), closed, 'the market is over')
})

test('in a market without settlement, no trade is ever pending, and a filled order counts as closed', () => {
  const market = given({ settled: false })
  market.place(sell('YES').at(0.4).size(10).by('bob').named('s'))
  market.place(buy('YES').at(0.5).size(10).by('ann').named('b'))
  assert.equal(market.state.pending.size, 0)
  assert.equal(market.state.unsettled, 1)
  assert.deepEqual(market.cancel('s', 'sell'), closed)
})

test('a cancel of all orders of a trader also cancels filled orders with unsettled trades', () => {
  const market = given()
  market.place(sell('YES').at(0.4).size(4).by('bob').named('filled'))
  market.place(sell('YES').at(0.4).size(4).by('bob').named('half'))
  market.place(sell('NO').at(0.4).size(1).by('bob').named('settled'))
  market.place(buy('YES').at(0.5).size(6).by('ann').named('b'))
  market.place(buy('NO').at(0.5).size(1).by('ann').named('n'))
  market.report('n', confirmed)
  const { marketId } = market
  const others = market.ask('CancelOrders', { marketId, trader: traderNamed('eve') })
  assert.deepEqual(others, { orderHashes: [], pending: [] })
  const orderHashes = [hashNamed('filled'), hashNamed('settled')]
  const listed = market.ask('CancelOrders', {
    marketId,
    trader: traderNamed('bob'),
    orderHashes,
  })
  const pending = (name: string, size: number) => ({
    orderHash: hashNamed(name),
    pendingSize: size * ONE,
  })
  assert.deepEqual(listed, { orderHashes: [hashNamed('filled')], pending: [pending('filled', 4)] })
  const all = market.ask('CancelOrders', { marketId, trader: traderNamed('bob') })
  assert.deepEqual(all, { orderHashes: [hashNamed('half')], pending: [pending('half', 2)] })
  const again = market.ask('CancelOrders', { marketId, trader: traderNamed('bob') })
  assert.deepEqual(again, { orderHashes: [], pending: [] })
  market.report('b', failedBy('buyer'), 0)
  market.report('b', failedBy('buyer'), 1)
  assert.deepEqual(market.book(), [])
})

test('a cancel for lack of funds skips filled orders, which regain quantity if their trades fail', () => {
  const market = filled()
  const { marketId } = market
  const bob = { marketId, trader: traderNamed('bob'), reason: 'unfunded' } as const
  const answer = market.ask('CancelOrders', { ...bob, orderHashes: [hashNamed('s')] })
  assert.deepEqual(answer, { orderHashes: [], pending: [] })
  assert.deepEqual(market.said(), [])
  market.report('b', failedBy('buyer'))
  assert.deepEqual(market.book(), ['YES sell 0.4 s 10'])
})

test('if a trader is barred, all their orders end as unfunded, including filled orders with pending trades', () => {
  const market = filled()
  const { marketId } = market
  const bob = { marketId, trader: traderNamed('bob'), reason: 'unfunded' } as const
  market.ask('CancelOrders', bob)
  assert.deepEqual(market.said(), ['s ended: unfunded, 0 rested'])
  market.report('b', failedBy('buyer'))
  assert.deepEqual(market.book(), [])
  assert.equal(stateHashOf(market.replayed()), market.hash())
})

/**
 * Returns the number of pending trades in total, their number per trader, and the pending size per order. Computes them
 * from the events alone.
 */
function pendingOf(market: ReturnType<typeof given>, flow: ReturnType<typeof randomFlow>) {
  const status = new Map<string, string>()
  for (const event of market.events) {
    if ('tradeId' in event) status.set(event.tradeId, event.type)
  }
  const counts = new Map<string, number>()
  const sizes = new Map<string, number>()
  let total = 0
  for (const { report } of flow.trades) {
    const last = status.get(report.tradeId)
    if (last === 'TradeConfirmed' || last === 'TradeFailed') continue
    total++
    const { buy: bought_, sell: sold } = report
    for (const trader of new Set([bought_.trader, sold.trader])) {
      counts.set(trader, (counts.get(trader) ?? 0) + 1)
    }
    for (const { orderHash } of [bought_, sold]) {
      sizes.set(orderHash, (sizes.get(orderHash) ?? 0) + report.size)
    }
  }
  return { counts, sizes, total }
}

test('the market’s counts of pending trades match its events after every step', () => {
  withSeeds([1, 2, 3], (random) => {
    const market = given({ selfTrade: random.chance(0.5) ? 'allow' : 'cancel-resting' })
    const flow = randomFlow(market, random)
    const { pending } = market.state
    for (let step = 0; step < 600; step++) {
      flow.step()
      const expected = pendingOf(market, flow)
      assert.equal(pending.size, expected.total)
      assert.equal(market.state.unsettled, expected.total)
      assert.deepEqual(
        [...pending.counts.all()].toSorted(),
        [...expected.counts].toSorted(),
        `step ${step}`,
      )
      for (const { orderHash, trader } of flow.placed) {
        assert.equal(pending.sizeOf(trader, orderHash), expected.sizes.get(orderHash) ?? 0)
      }
    }
    const { counts } = pending
    pending.drop()
    assert.deepEqual(
      [counts.total, counts.all().size],
      [0, 0],
      'nothing is left of a market that goes',
    )
  })
})

test('a cancelled order never rests or trades again, whether its fills settle or fail', () => {
  withSeeds([1, 2, 3, 4], (random) => {
    const market = given()
    const flow = randomFlow(market, random)
    for (let step = 0; step < 3_000; step++) flow.step()
    const gone = new Set<OrderHash>()
    let unsettled = 0
    for (const event of market.events) {
      if (event.type === 'OrderClosed' && event.reason === 'cancelled') {
        gone.add(event.orderHash)
        if (event.remaining === 0) unsettled++
      } else if (event.type === 'OrderRested') {
        assert(!gone.has(event.orderHash), `${nameOf(event.orderHash)} came back`)
      } else if (event.type === 'OrdersMatched') {
        for (const hash of [event.taker.orderHash, ...event.fills.map((fill) => fill.makerHash)]) {
          assert(!gone.has(hash), `${nameOf(hash)} traded again`)
        }
      }
    }
    assert(unsettled > 20, `${unsettled} were cancelled after they were filled`)
  })
})
