import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { OrderHash } from '#domain/ids.ts'
import { OUTCOMES } from '#domain/order.ts'
import { isRejection } from '#domain/rejection.ts'
import { PACKED } from '#log/packed-event.ts'
import { OrderHolds, unclaimedHolds } from '#services/market/host/order-holds.ts'
import { apply, newMarket } from '#services/market/market.ts'
import { rowsOf } from '#services/market/snapshot.ts'
import type { MarketState } from '#services/market/state.ts'
import { buy, hashNamed, nameOf, sell } from '../../support/orders.ts'
import { withSeeds } from '../../support/random.ts'
import { WHOLE } from '../../support/sample.ts'
import { given, packed, signed } from './market-fixture.ts'
import { randomFlow } from './random-flow.ts'

/** After so many steps the whole log is read again. */
const READ_EVERY = WHOLE ? 100 : 300

const heldIn = ({ held, market }: MarketState) =>
  held.all(market.id).map(({ orderHash }) => orderHash)

const rests = ({ books }: MarketState, orderHash: OrderHash) =>
  books.some((book) => book.locate(orderHash) >= 0)

/** What there is of the market for one that reads the log. */
function replayed(market: ReturnType<typeof given>): MarketState {
  const again = newMarket(market.state.market, market.state.rules, market.recall)
  for (const event of PACKED.read(packed(market.events))) apply(again, event)
  return again
}

test('whatever happens, the log says which orders are held: those of sessions that are not over', () => {
  withSeeds([1, 2, 3], (random) => {
    const market = given({ selfTrade: random.chance(0.5) ? 'allow' : 'cancel-resting' })
    /** Those that were ever placed in a session, and not let go since. */
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
      // Of one that it knows, what rests is held from now on.
      const counts = isNew ? stays && !isRejection(answer) : rests(market.state, orderHash)
      if (counts) wanted.add(orderHash)
      return answer
    }
    // The flow reads the state and the events where they are.
    const flow = randomFlow(Object.assign(Object.create(market), { ask }), random)
    let most = 0
    for (let step = 0; step < 2_000; step++) {
      flow.step()
      const held = heldIn(market.state)
      most = Math.max(most, held.length)
      if (held.length > 0 && random.chance(0.05)) {
        const orderHash = random.pick(held)
        if (rests(market.state, orderHash)) wanted.delete(orderHash)
        market.ask('KeepOrder', { marketId: market.marketId, orderHash })
      }
      if (step % READ_EVERY !== 0) continue
      market.state.held.rows(market.state)
      const now = new Set(heldIn(market.state))
      // What a reorganisation brings back after it was settled, nobody has held since.
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
      assert.deepEqual(heldIn(again).toSorted(), [...now].toSorted())
    }
    assert(most > 10, `${most} were held at most`)
    market.ask('CloseMarket', { marketId: market.marketId, reason: 'resolved' })
    assert.deepEqual(heldIn(market.state), [])
  })
})

test('an order of a session that trades and comes back is still held', () => {
  const market = given()
  const order = signed(buy('YES').at(0.5).size(2).by('ann').named('held'), market.marketId)
  market.place(sell('YES').at(0.5).size(1).by('bob').named('maker'))
  market.ask('PlaceOrder', { order, session: 's' })
  market.place(sell('YES').at(0.5).size(1).by('bob').named('taker'))
  assert.deepEqual(heldIn(market.state).map(nameOf), ['held'], 'it is filled, and not settled')
  const failed = market.reportOf('taker', { status: 'failed', fault: 'seller' })
  const report = { ...failed, buy: order }
  market.ask('ReportTrade', { marketId: market.marketId, report })
  assert.deepEqual(heldIn(market.state).map(nameOf), ['held'], 'what came back is held again')
  assert.deepEqual(heldIn(replayed(market)), heldIn(market.state))
  const { side } = order
  market.ask('CancelOrder', { marketId: market.marketId, orderHash: order.orderHash, side })
  assert.deepEqual(heldIn(market.state), [])
})

test('an order of a session that has settled is held no more', () => {
  const market = given()
  const order = signed(buy('YES').at(0.5).size(1).by('ann').named('held'), market.marketId)
  market.ask('PlaceOrder', { order, session: 's' })
  market.place(sell('YES').at(0.5).size(1).by('bob').named('taker'))
  assert.deepEqual(heldIn(market.state).map(nameOf), ['held'])
  const report = { ...market.reportOf('taker', { status: 'confirmed' }), buy: order }
  market.ask('ReportTrade', { marketId: market.marketId, report })
  assert.deepEqual(heldIn(market.state), [])
})

test('a snapshot has what is held', () => {
  const market = given()
  const order = signed(buy('YES').at(0.5).size(2).by('ann').named('held'), market.marketId)
  market.ask('PlaceOrder', { order, session: 's' })
  market.place(buy('YES').at(0.4).size(2).by('ann').named('other'))
  const rows = rowsOf(market.state)
  assert.deepEqual(rows, [['held', hashNamed('held'), order.side, order.trader]])
  const again = newMarket(market.state.market, market.state.rules, market.recall)
  for (const row of rows) if (row[0] === 'held') again.held.restore(row)
  assert.deepEqual(heldIn(again), [hashNamed('held')])
})

test('what the log has as held and no front holds is to be cancelled', () => {
  const market = given()
  for (const name of ['claimed', 'left']) {
    const order = signed(buy('YES').at(0.5).size(2).by('ann').named(name), market.marketId)
    market.ask('PlaceOrder', { order, session: 's' })
  }
  market.place(buy('YES').at(0.4).size(2).by('ann').named('free'))
  const [order] = market.state.held.all(market.marketId)
  assert(order !== undefined)
  const kept: string[] = []
  const front = new OrderHolds((orders) => {
    for (const { orderHash } of orders) kept.push(nameOf(orderHash))
  })
  front.handlers.HoldOrder({ session: 's', order })
  const markets = new Map([[market.marketId, { state: market.state }]])
  const names = unclaimedHolds(markets, [front]).map(({ orderHash }) => nameOf(orderHash))
  assert.deepEqual(names, ['left'])
  front.handlers.DropSession({ session: 's' })
  assert.deepEqual(kept, ['claimed'])
})
