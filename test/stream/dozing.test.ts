/**
 * Subscriptions at a front that does not follow the market yet: the front loads the market first, and then
 * sends every change.
 */

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { BUY } from '#domain/order.ts'
import { signed } from '../services/market/market-fixture.ts'
import { eventually } from '../support/eventually.ts'
import { buy, traderNamed } from '../support/orders.ts'
import { marketIdOf, startStream } from './stream-fixture.ts'

const M = marketIdOf(0)
const BOOK = { op: 'subscribe', channel: 'book', marketId: M, outcome: 0 }

async function startDozing(t: TestContext) {
  let dozes = false
  const needed: unknown[] = []
  const stream = await startStream(t, {
    parts: {
      use: {
        needThese(markets) {
          const some = markets === 'all' ? 'all' : [...markets]
          if (dozes) needed.push(some)
          return !dozes || some.length === 0
        },
      },
    },
  })
  const [market] = stream.markets
  let placed = 0
  return {
    ...{ stream, needed },
    place() {
      const builder = buy('YES').at(0.42).size(1).by('ann').named(`order ${placed++}`)
      market!.ask('PlaceOrder', { order: signed(builder, M) })
    },
    doze() {
      dozes = true
    },
    /** Loads the market as a front does when a client needs it. Then sends the snapshots for which subscribers wait. */
    wake() {
      stream.load(true)
      dozes = false
      stream.hub.woken()
    },
  }
}

test('if a front does not follow a market yet, a subscriber waits for a current book snapshot', async (t) => {
  const { stream, needed, place, doze, wake } = await startDozing(t)
  const client = await stream.connect()
  doze()
  place()
  client.say(BOOK)
  await eventually(() => assert.deepEqual(needed, [[M]]))
  // The front's copy of the book may be stale, so the client gets no snapshot yet. The connection still answers.
  assert.equal((await client.ask({ op: 'ping' })).type, 'pong')
  assert.deepEqual([...stream.hub.watched()], [M])
  place()
  wake()
  assert.deepEqual((await client.next('subscribed')).seq, 3)
  const snapshot = await client.next()
  assert.deepEqual(
    [snapshot.type, snapshot.seq, snapshot.bids, snapshot.reset],
    ['book.snapshot', 3, [[420_000, 2_000_000]], undefined],
  )
  for (const seq of [4, 5]) {
    place()
    stream.flow()
    const delta = await client.next('book.delta')
    assert.deepEqual([delta.prevSeq, delta.seq], [seq - 1, seq])
  }
})

for (const happens of [false, true]) {
  const becomes = happens
    ? 'a client that missed events gets a reset snapshot'
    : 'a client that missed no events gets only later changes'
  test(`after a resubscription to a market that the front had stopped following, ${becomes}`, async (t) => {
    const { stream, place, doze, wake } = await startDozing(t)
    place()
    stream.flow()
    const client = await stream.connect()
    doze()
    if (happens) place()
    const seq = happens ? 3 : 2
    client.say({ ...BOOK, since: 2 })
    await eventually(() => assert.equal(stream.hub.figures().subscriptions, 1))
    wake()
    assert.equal((await client.next('subscribed')).seq, seq)
    place()
    stream.flow()
    const [first, second] = [await client.next(), happens ? await client.next() : undefined]
    const delta = second ?? first
    if (happens) assert.deepEqual([first.type, first.reset], ['book.snapshot', true])
    assert.deepEqual([delta.type, delta.prevSeq], ['book.delta', seq])
  })
}

test('a subscription to a trader’s orders waits until the front receives the events of all markets', async (t) => {
  const { stream, needed, place, doze, wake } = await startDozing(t)
  const client = await stream.connect()
  doze()
  place()
  client.say({ op: 'subscribe', channel: 'orders', trader: traderNamed('ann') })
  await eventually(() => assert.deepEqual(needed, ['all']))
  assert.equal(stream.hub.watched(), 'all')
  wake()
  const snapshot = await client.next('orders.snapshot')
  assert.equal((snapshot.orders as unknown[]).length, 1)
  assert.equal(snapshot.reset, undefined)
  place()
  stream.flow()
  const order = await client.next('order')
  assert.equal(order.prevCursor, snapshot.cursor)
  assert.equal(order.side, BUY)
})

test('a front sends market openings and closings even for markets whose other events it does not receive', async (t) => {
  const { stream, needed, place, doze, wake } = await startDozing(t)
  const [market] = stream.markets
  const client = await stream.connect()
  const snapshot = await client.ask({ op: 'subscribe', channel: 'market' }, 'market.snapshot')
  doze()
  place()
  market!.ask('CloseMarket', { marketId: M, reason: 'expired' })
  const closed = market!.events.at(-1)
  assert(closed?.type === 'MarketClosed')
  stream.board.followFacts([closed])
  const told = await client.next()
  assert.deepEqual([told.type, told.event, told.seq], ['market', 'expired', closed.seq])
  assert.equal(told.prevCursor, snapshot.cursor)
  assert.deepEqual(needed, [])
  assert.equal(stream.board.markets.get(M)?.books[0].levels(BUY).length, 0)
  // When the front loads the market again, a client that follows only openings and closings gets no message.
  wake()
  assert.equal((await client.ask({ op: 'ping' })).type, 'pong')
})
