import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { MarketId } from '#domain/ids.ts'
import type { Price } from '#domain/money.ts'
import { BUY } from '#domain/order.ts'
import { isRejection } from '#domain/rejection.ts'
import { isUnanswered } from '#runtime/channel.ts'
import { eventually } from '../../support/eventually.ts'
import { assertOpen, assertProjected, eventsOf, expectedFrom, untilProjected } from './agreement.ts'
import { openMarkets, openOrders, withExchanges } from './exchange-fixture.ts'
import { orderStream } from './order-stream.ts'

const hashesOf = (events: ReturnType<typeof eventsOf>['events']) => {
  const hashes = new Set<string>()
  for (const event of events) {
    if (event.type === 'OrderRested' && event.order) hashes.add(event.orderHash)
    if (event.type === 'OrdersMatched') hashes.add(event.taker.orderHash)
  }
  return hashes
}

test('a market thread answers a command only after its events have been written to the log', () =>
  withExchanges(async (start, dataDir) => {
    const exchange = await start({ store: false })
    const stream = orderStream(1, 4)
    await openMarkets(exchange, stream)
    for (let n = 0; n < 60; n++) {
      const { marketId, ask } = stream.next()
      if (ask[0] !== 'PlaceOrder') continue
      const answer = await exchange.ask(marketId, ...ask)
      assert('status' in answer && answer.status === 'accepted')
      assert(hashesOf(eventsOf(dataDir).events).has(ask[1].order.orderHash))
    }
  }))

test('each front receives an event before the answer to the command that caused the event', () =>
  withExchanges(async (start, dataDir) => {
    const exchange = await start({ store: false, relays: 2 })
    const stream = orderStream(2, 3)
    await openMarkets(exchange, stream)
    const halves = await Promise.all(
      Array.from({ length: 40 }, (_, turn) =>
        exchange.askAll(stream.take(10), turn % 2 === 0 ? 'front-0' : 'front-1'),
      ),
    )
    assert.equal(halves.flat().length, 400)
    const known = hashesOf(eventsOf(dataDir).events)
    // A relay may still receive events that the other relay's commands caused, so the test waits for them.
    await eventually(() => {
      for (const story of exchange.received.values()) {
        const told = story.flatMap((line) => ('event' in line ? [line.event] : []))
        assert.deepEqual(hashesOf(told), known)
      }
    })
    for (const [relay, story] of exchange.received) {
      const seqs = new Map<string, number>()
      const seen = new Set<string>()
      let answers = 0
      for (const line of story) {
        if ('event' in line) {
          const { event } = line
          assert.equal(event.seq, (seqs.get(event.marketId) ?? 0) + 1, `${relay} has no gap`)
          seqs.set(event.marketId, event.seq)
          for (const hash of hashesOf([event])) seen.add(hash)
        } else if ('answer' in line) {
          const answer = line.answer as { orderHash?: string; status?: string }
          answers++
          if (answer.status === 'accepted') assert(seen.has(answer.orderHash!), 'told before')
        }
      }
      assert(answers >= 200, relay)
      assert.deepEqual(seen, known)
    }
  }))

test('a market thread that is killed while it handles requests recovers all open orders from the log', () =>
  withExchanges(async (start, dataDir) => {
    const exchange = await start({
      store: false,
      env: { SIBYL_MARKET_THREADS: '2' },
    })
    const stream = orderStream(3, 6)
    await openMarkets(exchange, stream)
    let asked = 0
    let answered = 0
    let unanswered = 0
    for (let kill = 1; kill <= 3; kill++) {
      const under = Array.from({ length: 20 }, () => exchange.askAll(stream.take(25)))
      asked += 500
      await under[2]
      await exchange.supervisor.kill('market-0')
      for (const answer of (await Promise.all(under)).flat()) {
        if (isUnanswered(answer)) unanswered++
        else answered++
      }
      await exchange.untilLinked('market-0', kill + 1)
      assert.equal(exchange.linkedTimes('market-1'), 1, 'the other thread never notices')
    }
    assert.equal(answered + unanswered, asked)
    const expected = expectedFrom(dataDir)
    assertOpen(expected, await openOrders(exchange))
  }))

test('after a kill, a market thread cancels the orders of sessions that no front reports as alive', () =>
  withExchanges(async (start) => {
    const exchange = await start({ store: false })
    const stream = orderStream(5, 1)
    await openMarkets(exchange, stream)
    const places = stream.take(40).filter(({ ask }) => ask[0] === 'PlaceOrder')
    const sessionOf = (at: number) => ['claimed', 'left'][at % 3]
    const hashes = places.map(
      ({ ask }) => (ask[1] as { order: { orderHash: string } }).order.orderHash,
    )
    await exchange.askAll(
      places.map(({ marketId, ask }, at) => {
        const session = sessionOf(at)
        const message = { ...(ask[1] as object), ...(session === undefined ? {} : { session }) }
        return { marketId, ask: ['PlaceOrder', message] as never }
      }),
    )
    const open = async () => (await openOrders(exchange)).map(({ orderHash }) => orderHash)
    const before = await open()
    const isLeft = (orderHash: string) => sessionOf(hashes.indexOf(orderHash)) === 'left'
    const stays = before.filter((orderHash) => !isLeft(orderHash))
    assert(stays.length > 0 && stays.length < before.length, 'the test needs both')
    await exchange.supervisor.kill('market-0')
    await exchange.untilLinked('market-0', 2)
    const { marketId } = places[0]!
    const claim = ['ClaimSessions', { sessions: ['claimed'] }] as never
    assert.deepEqual(await exchange.askAll([{ marketId, ask: claim }]), [{ claimed: true }])
    await eventually(async () => assert.deepEqual(await open(), stays))
    const end = ['EndSession', { session: 'claimed' }] as never
    assert.deepEqual(await exchange.askAll([{ marketId, ask: end }]), [{ ended: true }])
    const isFree = (orderHash: string) => sessionOf(hashes.indexOf(orderHash)) === undefined
    assert.deepEqual(await open(), stays.filter(isFree), 'an answer means that they are cancelled')
  }))

test('an order without an answer can be sent again, and is placed once', () =>
  withExchanges(async (start, dataDir) => {
    const exchange = await start({ store: false })
    const stream = orderStream(4, 3)
    await openMarkets(exchange, stream)
    const asks = stream.take(600)
    const first = exchange.askAll(asks)
    await exchange.supervisor.kill('market-0')
    const answers = await first
    await exchange.untilLinked('market-0', 2)
    const lost = asks.filter((_, index) => isUnanswered(answers[index]))
    const again = await exchange.askAll(lost)
    assert(again.every((answer) => !isUnanswered(answer)))
    const placed = asks.filter(({ ask }) => ask[0] === 'PlaceOrder')
    const expected = expectedFrom(dataDir)
    assert.equal(expected.orders.size, placed.length)
  }))

test('a command that arrives at a full mailbox is answered with OVERLOADED', () =>
  withExchanges(async (start, dataDir) => {
    const env = { SIBYL_MARKET_MAILBOX_MAX: '20' }
    const exchange = await start({ store: false, env })
    const stream = orderStream(5, 1)
    await openMarkets(exchange, stream)
    const answers = await exchange.askAll(stream.take(400))
    const codes = answers.map((answer) => (isRejection(answer) ? answer.rejected : 'accepted'))
    assert(codes.includes('OVERLOADED'))
    const accepted = codes.filter((code) => code === 'accepted').length
    assert(accepted >= 20)
    const { orders } = expectedFrom(dataDir)
    assert(orders.size <= accepted)
  }))

test('after a restart with another number of market threads, all markets and orders are unchanged', () =>
  withExchanges(async (start, dataDir) => {
    const stream = orderStream(6, 12)
    let views: unknown
    for (const [round, threads] of ['1', '3', '2'].entries()) {
      const env = { SIBYL_MARKET_THREADS: threads }
      const exchange = await start({ env })
      const all = async () => {
        const seen: { market: { id: MarketId } }[] = []
        for (const thread of exchange.markets) {
          const answer = await exchange.askThread(thread, 'Markets', {})
          seen.push(...(answer as { views: typeof seen }).views)
        }
        return seen.toSorted((a, b) => (a.market.id < b.market.id ? -1 : 1))
      }
      if (round === 0) await openMarkets(exchange, stream)
      else assert.deepEqual(await all(), views)
      await exchange.askAll(stream.take(300))
      views = await all()
      const expected = expectedFrom(dataDir)
      assertOpen(expected, await openOrders(exchange))
      await untilProjected(expected, exchange.databaseUrl)
      await assertProjected(expected, exchange.databaseUrl)
      assert.equal(await exchange.stop(), true, 'it stops in good order')
    }
  }))

test('when a front dies, all orders of its sessions are cancelled, including orders without an answer', () =>
  withExchanges(async (start) => {
    const exchange = await start({ store: false, relays: 2 })
    const stream = orderStream(9, 1)
    await openMarkets(exchange, stream)
    const orders = stream
      .take(20)
      .flatMap(({ ask }) => (ask[0] === 'PlaceOrder' ? [ask[1].order] : []))
    const inNameOf = (session: string | undefined, from: number, to: number) =>
      orders.slice(from, to).map((order) => {
        const terms = { ...order, side: BUY, price: 100_000 as Price } as const
        const message = session === undefined ? { order: terms } : { order: terms, session }
        return {
          marketId: order.marketId,
          ask: ['PlaceOrder', message] as ['PlaceOrder', typeof message],
        }
      })
    await exchange.askAll(inNameOf(undefined, 0, 3), 'front-1')
    await exchange.askAll(inNameOf('lives', 3, 6), 'front-0')
    const open = async () =>
      (await openOrders(exchange)).map(({ orderHash }) => orderHash).toSorted()
    const stays = await open()
    assert.equal(stays.length, 6)
    // A front gets events before answers. So the test kills the sending front after the first events, at about the time
    // when its answers arrive.
    void exchange.askAll(inNameOf('dies', 6, 16), 'front-1')
    const rested = () => exchange.received.get('front-0')!.filter((line) => 'event' in line).length
    await eventually(() => assert(rested() > 7))
    await exchange.supervisor.kill('front-1')
    await eventually(() => assert.equal(rested(), 7 + 2 * 10, 'ten came, and ten went'))
    assert.deepEqual(await open(), stays)
  }))
