import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { MarketId, OrderHash } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { OUTCOMES } from '#domain/order.ts'
import { isRejection } from '#domain/rejection.ts'
import { PACKED } from '#log/packed-event.ts'
import { SessionIndex } from '#services/market/held.ts'
import { apply, newMarket } from '#services/market/market.ts'
import { rowsOf } from '#services/market/snapshot.ts'
import type { MarketState } from '#services/market/state.ts'
import { buy, hashNamed, nameOf, sell } from '../../support/orders.ts'
import { withSeeds } from '../../support/random.ts'
import { WHOLE } from '../../support/sample.ts'
import { given, packed, signed } from './market-fixture.ts'
import { randomFlow } from './random-flow.ts'

/** Number of steps between two complete replays of the log. */
const READ_EVERY = WHOLE ? 100 : 300

/** Returns the orders in the market's events that now belong to a session. */
function heldIn(
  market: { state: MarketState; events: readonly MarketEvent[] },
  { held } = market.state,
) {
  const named = new Set<OrderHash>()
  for (const event of market.events) {
    if (event.type === 'OrderRested') named.add(event.orderHash)
    else if (event.type === 'OrdersMatched') named.add(event.taker.orderHash)
  }
  return [...named].filter((orderHash) => held.sessionOf(orderHash) !== undefined)
}

const rests = ({ books }: MarketState, orderHash: OrderHash) =>
  books.some((book) => book.locate(orderHash) >= 0)

/** Returns the state that a replay of the log gives. */
function replayed(market: ReturnType<typeof given>): MarketState {
  const again = newMarket(market.state.market, market.state.rules, market.recall)
  for (const event of PACKED.read(packed(market.events))) apply(again, event)
  return again
}

test('the log shows, for each session, exactly which orders are to be cancelled when the session ends', () => {
  withSeeds([1, 2, 3], (random) => {
    const market = given({ selfTrade: random.chance(0.5) ? 'allow' : 'cancel-resting' })
    /** Orders that were placed in a session and not released since. */
    const wanted = new Set<OrderHash>()
    const ask: typeof market.ask = (type, message) => {
      if (type !== 'PlaceOrder' || random.chance(0.5)) return market.ask(type, message)
      const { order, timeInForce } = message as {
        order: { orderHash: OrderHash }
        timeInForce?: string
      }
      const { orderHash } = order
      const isNew = !market.recall.closed.has(orderHash) && !rests(market.state, orderHash)
      const stays = timeInForce !== 'IOC' && timeInForce !== 'FOK'
      const answer = market.ask(type, { ...message, session: 's' })
      // If a known order still rests when it is submitted again, it belongs to the session from now on.
      const counts = isNew ? stays && !isRejection(answer) : rests(market.state, orderHash)
      if (counts) wanted.add(orderHash)
      return answer
    }
    // The flow places orders through `ask` above, and otherwise uses the original market.
    const flow = randomFlow(Object.assign(Object.create(market), { ask }), random)
    let most = 0
    for (let step = 0; step < 2_000; step++) {
      flow.step()
      const held = heldIn(market)
      most = Math.max(most, held.length)
      if (held.length > 0 && random.chance(0.05)) {
        const orderHash = random.pick(held)
        if (rests(market.state, orderHash)) wanted.delete(orderHash)
        market.ask('KeepOrder', { marketId: market.marketId, orderHash })
      }
      if (step % READ_EVERY !== 0) continue
      market.state.held.rows(market.state)
      const now = new Set(heldIn(market))
      // An order that returns to the book because a reorg reverted its trade has no session, so it is not compared.
      const undone = new Set<OrderHash>()
      for (const event of market.events) {
        if (event.type !== 'TradeReverted' || event.trade === undefined) continue
        undone.add(event.trade.buyHash).add(event.trade.sellHash)
      }
      for (const outcome of OUTCOMES) {
        for (const side of [0, 1] as const) {
          for (const { orderHash } of market.state.books[outcome].orders(side)) {
            if (undone.has(orderHash)) continue
            assert.equal(now.has(orderHash), wanted.has(orderHash), nameOf(orderHash))
          }
        }
      }
      const again = replayed(market)
      again.held.rows(again)
      assert.deepEqual(heldIn(market, again).toSorted(), [...now].toSorted())
    }
    assert(most > 10, `${most} were held at most`)
    market.ask('CloseMarket', { marketId: market.marketId, reason: 'resolved' })
    assert.deepEqual(heldIn(market), [])
  })
})

test('an order that gets quantity back from a failed trade is still cancelled when its session ends', () => {
  const market = given()
  const order = signed(buy('YES').at(0.5).size(2).by('ann').named('held'), market.marketId)
  market.place(sell('YES').at(0.5).size(1).by('bob').named('maker'))
  market.ask('PlaceOrder', { order, session: 's' })
  market.place(sell('YES').at(0.5).size(1).by('bob').named('taker'))
  assert.deepEqual(heldIn(market).map(nameOf), ['held'], 'it is filled, and not settled')
  const failed = market.reportOf('taker', { status: 'failed', fault: 'seller' })
  const report = { ...failed, buy: order }
  market.ask('ReportTrade', { marketId: market.marketId, report })
  assert.deepEqual(heldIn(market).map(nameOf), ['held'], 'what came back is held again')
  assert.deepEqual(heldIn(market, replayed(market)), heldIn(market))
  const { side } = order
  market.ask('CancelOrder', { marketId: market.marketId, orderHash: order.orderHash, side })
  assert.deepEqual(heldIn(market), [])
})

test('once the trade of a filled order is confirmed, the market forgets the order’s session', () => {
  const market = given()
  const order = signed(buy('YES').at(0.5).size(1).by('ann').named('held'), market.marketId)
  market.ask('PlaceOrder', { order, session: 's' })
  market.place(sell('YES').at(0.5).size(1).by('bob').named('taker'))
  assert.deepEqual(heldIn(market).map(nameOf), ['held'])
  const report = { ...market.reportOf('taker', { status: 'confirmed' }), buy: order }
  market.ask('ReportTrade', { marketId: market.marketId, report })
  assert.deepEqual(heldIn(market), [])
})

test('a market snapshot names the session of each order that is to be cancelled when that session ends', () => {
  const market = given()
  const order = signed(buy('YES').at(0.5).size(2).by('ann').named('held'), market.marketId)
  market.ask('PlaceOrder', { order, session: 's' })
  market.place(buy('YES').at(0.4).size(2).by('ann').named('other'))
  const rows = rowsOf(market.state)
  assert.deepEqual(rows, [['held', hashNamed('held'), order.side, order.trader, 's']])
  const again = newMarket(market.state.market, market.state.rules, market.recall)
  for (const row of rows) if (row[0] === 'held') again.held.restore(row)
  assert.deepEqual(heldIn(market, again), [hashNamed('held')])
})

test('an order resubmitted by another session belongs to that session from then on', () => {
  const market = given()
  const order = signed(buy('YES').at(0.5).size(2).by('ann').named('a'), market.marketId)
  for (const session of ['first', 'first', 'second']) market.ask('PlaceOrder', { order, session })
  assert.equal(market.state.held.sessionOf(order.orderHash), 'second')
  assert.equal(replayed(market).held.sessionOf(order.orderHash), 'second')
  const rested = market.events.filter(({ type }) => type === 'OrderRested')
  assert.equal(rested.length, 2, 'the log is not told twice of the same session')
})

test('the limit of open orders of a session counts all markets of a market thread together', () => {
  const index = new SessionIndex()
  const [one, other] = [1, 2].map((number) =>
    given({
      market: { id: `0x${String(number).repeat(64)}` as MarketId },
      sessions: { index, ordersMax: 2 },
    }),
  )
  const place = (market: ReturnType<typeof given>, name: string, session: string) =>
    market.ask('PlaceOrder', {
      order: signed(buy('YES').at(0.5).size(2).by('ann').named(name), market.marketId),
      session,
    })
  for (const market of [one!, other!]) assert(!isRejection(place(market, market.marketId, 's')))
  const refused = place(one!, 'more', 's')
  assert(isRejection(refused) && refused.rejected === 'RATE_LIMITED')
  assert.equal(
    refused.detail,
    'this connection has 2 open or unsettled orders that are cancelled when it ends, which is the maximum',
  )
  assert(!isRejection(place(one!, one!.marketId, 's')), 'the same order again is no other order')
  assert(!isRejection(place(one!, 'more', 't')), 'another session has a limit of its own')
  one!.cancel(one!.marketId, 'buy')
  assert(!isRejection(place(other!, 'next', 's')), 'an order that ended does not count')
  assert.deepEqual(index.sizeOf('s'), 2)
  for (const market of [one!, other!]) market.state.held.drop()
  assert.deepEqual(index.sessions(), [], 'markets that are unloaded leave nothing behind')
})

test('if a trade fails through a trader’s fault, the order stops counting towards its session’s order limit', () => {
  const index = new SessionIndex()
  const market = given({ sessions: { index, ordersMax: 1 } })
  const order = signed(buy('YES').at(0.5).size(1).by('ann').named('a'), market.marketId)
  market.ask('PlaceOrder', { order, session: 's' })
  market.place(sell('YES').at(0.5).size(1).by('bob').named('taker'))
  assert.equal(index.sizeOf('s'), 1, 'its trade may fail')
  const report = { ...market.reportOf('taker', { status: 'failed', fault: 'buyer' }), buy: order }
  market.ask('ReportTrade', { marketId: market.marketId, report })
  assert.equal(index.sizeOf('s'), 0)
})

test('if a reorg reverts the trade of an order, the order belongs to its session again', () => {
  const index = new SessionIndex()
  const market = given({ sessions: { index, ordersMax: 1 } })
  const order = signed(buy('YES').at(0.5).size(1).by('ann').named('a'), market.marketId)
  market.ask('PlaceOrder', { order, session: 's' })
  market.place(sell('YES').at(0.5).size(1).by('bob').named('taker'))
  const report = (status: 'confirmed' | 'reverted') =>
    market.ask('ReportTrade', {
      marketId: market.marketId,
      report: { ...market.reportOf('taker', { status }), buy: order },
    })
  report('confirmed')
  assert.deepEqual(index.sessions(), [], 'nothing of it can be cancelled')
  const restored = newMarket(market.state.market, market.state.rules, market.recall)
  for (const row of rowsOf(market.state)) {
    if (row[0] === 'held' || row[0] === 'settled') restored.held.restore(row)
  }
  report('reverted')
  assert.equal(market.state.held.sessionOf(order.orderHash), 's')
  restored.held.follow(market.events.at(-1)!, undefined, restored)
  assert.equal(restored.held.sessionOf(order.orderHash), 's')
})
