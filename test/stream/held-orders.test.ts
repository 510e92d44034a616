import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { MarketEvent } from '#domain/market-event.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { RecalledOrder, TradeReport } from '#protocol/market.ts'
import type { HoldsProtocol } from '#protocol/market-followers.ts'
import type { Ref } from '#runtime/ref.ts'
import { OrderHolds } from '#services/market/host/order-holds.ts'
import { makeHeldOrders } from '#stream/held-orders.ts'
import { given, signed } from '../services/market/market-fixture.ts'
import { eventually } from '../support/eventually.ts'
import { buy, nameOf, type OrderBuilder, sell } from '../support/orders.ts'
import { simulatedClock } from '../support/simulated-clock.ts'

function fixture(perSessionMax = 10, settled = true) {
  let holds = new OrderHolds()
  const asked: string[] = []
  const failures: string[] = []
  const recalled = new Map<string, RecalledOrder | Rejection>()
  const clock = simulatedClock(0)
  const ref: Ref<HoldsProtocol> = {
    async ask(type, message) {
      return holds.handlers[type](message)
    },
    tell: (type, message) => void holds.handlers[type](message),
    isOpen: true,
    heardSentAtMs: 0,
  }
  const held = makeHeldOrders({
    threads: [ref],
    threadOf: () => 0,
    gateway: {
      async cancel({ orderHash }) {
        asked.push(nameOf(orderHash))
        const failure = failures.shift()
        if (failure !== undefined) return reject('OUTCOME_UNKNOWN')
        return { status: 'cancelled', orderHash }
      },
      recall: async ({ orderHash }) => recalled.get(nameOf(orderHash)),
    },
    clock,
    isSettled: () => settled,
    perSessionMax,
    deadlineMs: 1_000,
  })
  const order = (name: string) => signed(buy('YES').by('ann').named(name))
  /** Holds an order and places it, as far as the thread of its market is concerned. */
  const place = (session: string, name: string) => {
    const refused = held.hold(session, order(name))
    return refused ?? holds.placed({ order: order(name), session })
  }
  const atThread = () => {
    const all = holds.takeAll()
    for (const each of all) holds.handlers.HoldOrder({ session: 's', order: each })
    return all.map(({ orderHash }) => nameOf(orderHash))
  }
  return {
    held,
    asked,
    failures,
    recalled,
    clock,
    order,
    place,
    atThread,
    restart: () => (holds = new OrderHolds()),
  }
}

test('the orders of a session are cancelled with it, until the market has answered', async () => {
  const { held, asked, failures, clock, place, atThread } = fixture()
  assert.equal(place('s', 'a'), undefined)
  assert.equal(place('s', 'b'), undefined)
  assert.deepEqual(atThread(), ['a', 'b'])
  failures.push('late')
  held.end('s')
  await eventually(() => assert.equal(clock.pending, 1))
  assert.deepEqual(atThread(), ['a', 'b'], 'should this thread die now, the other one acts')
  clock.advance(1_000)
  await held.settled()
  assert.deepEqual(asked, ['a', 'b', 'a'])
  assert.deepEqual(atThread(), [])
})

test('what has ended, was refused or is wanted no more is not cancelled', async () => {
  const { held, asked, order, place, atThread } = fixture()
  for (const name of ['a', 'b', 'c']) place('s', name)
  const { orderHash } = order('a')
  held.followed({ type: 'OrderClosed', orderHash } as MarketEvent)
  held.release('s', order('b').orderHash)
  assert.deepEqual(atThread(), ['c'])
  held.forget('s')
  held.end('s')
  await held.settled()
  assert.deepEqual(asked, [])
  assert.deepEqual(atThread(), [])
})

/** Held orders that follow a real market: Ann's are held, Bob's are not. */
function inMarket(settled = true) {
  const { held, asked, atThread, ...rest } = fixture(10, settled)
  const market = given()
  let read = 0
  const follow = () => {
    for (const event of market.events.slice(read)) held.followed(event)
    read = market.events.length
  }
  const ann = (builder: OrderBuilder) => {
    const order = builder.by('ann')
    rest.place('s', nameOf(order.fields.orderHash))
    market.place(order)
    follow()
  }
  const bob = (builder: OrderBuilder) => {
    market.place(builder.by('bob'))
    follow()
  }
  const report = (taker: string, what: Parameters<typeof market.report>[1], fill = 0) => {
    market.report(taker, what, fill)
    follow()
  }
  const cancel = (name: string, side: 'buy' | 'sell') => {
    market.cancel(name, side)
    follow()
  }
  return { held, asked, atThread, ann, bob, report, cancel }
}

const failedBy = (fault: TradeReport['fault']) => ({ status: 'failed', fault }) as const

test('an order that was filled is held until its fills are settled', async () => {
  const { held, asked, atThread, ann, bob, report } = inMarket()
  ann(buy('YES').at(0.5).size(3).named('a'))
  bob(sell('YES').at(0.5).size(1).named('s1'))
  bob(sell('YES').at(0.5).size(2).named('s2'))
  assert.deepEqual(atThread(), ['a'])
  report('s1', { status: 'confirmed' })
  assert.deepEqual(atThread(), ['a'])
  report('s2', { status: 'confirmed' })
  assert.deepEqual(atThread(), [], 'nothing of it can come back')
  ann(buy('YES').at(0.5).size(1).named('b'))
  bob(sell('YES').at(0.5).size(1).named('s3'))
  held.end('s')
  await held.settled()
  assert.deepEqual(asked, ['b'], 'what is not settled is cancelled with its session')
})

test('an order that a failed fill gave back is still held', async () => {
  const { held, asked, atThread, ann, bob, report, cancel } = inMarket()
  ann(buy('YES').at(0.5).size(1).named('a'))
  bob(sell('YES').at(0.5).size(1).named('s1'))
  report('s1', failedBy('seller'))
  assert.deepEqual(atThread(), ['a'])
  bob(sell('YES').at(0.5).size(1).named('s2'))
  assert.deepEqual(atThread(), ['a'], 'filled again')
  cancel('a', 'buy')
  assert.deepEqual(atThread(), [], 'cancelled by hand')
  ann(buy('YES').at(0.4).size(1).named('b'))
  bob(sell('YES').at(0.4).size(1).named('s3'))
  report('s3', failedBy('buyer'))
  assert.deepEqual(atThread(), [], 'its own fault: it does not come back')
  held.end('s')
  await held.settled()
  assert.deepEqual(asked, [])
})

test('where trades are not settled, a filled order is held no more', () => {
  const { atThread, ann, bob } = inMarket(false)
  ann(buy('YES').at(0.5).size(1).named('a'))
  bob(sell('YES').at(0.5).size(1).named('s1'))
  assert.deepEqual(atThread(), [])
})

test('an order whose session ends while it is being placed is cancelled', async () => {
  const { held, asked, order } = fixture()
  assert.equal(held.hold('s', order('a')), undefined)
  held.end('s')
  await held.settled()
  assert.deepEqual(asked, ['a'])
})

test('a session holds so many orders and no more', async () => {
  const { held, order } = fixture(1)
  assert.equal(held.hold('s', order('a')), undefined)
  assert.equal(held.hold('s', order('b'))?.rejected, 'RATE_LIMITED')
  assert.equal(held.hold('t', order('b')), undefined)
})

test('a market thread that comes back is told again', async () => {
  const { held, place, atThread, restart } = fixture()
  place('s', 'a')
  restart()
  assert.deepEqual(atThread(), [])
  held.repeat(0)
  await eventually(() => assert.deepEqual(atThread(), ['a']))
})

test('a market is told of as long as an order is held there', async () => {
  const { held, order, place } = fixture()
  assert.deepEqual([...held.markets()], [])
  for (const name of ['a', 'b', 'b']) place('s', name)
  place('r', 'c')
  const { marketId } = order('a')
  assert.deepEqual([...held.markets()], [marketId])
  held.release('s', order('a').orderHash)
  held.release('s', order('a').orderHash)
  held.forget('s')
  assert.deepEqual([...held.markets()], [marketId])
  held.end('r')
  assert.deepEqual([...held.markets()], [])
  await held.settled()
})

test('where events were missed, what has ended is held no more, and what may come back until it cannot', async () => {
  const { held, recalled, clock, order, place, atThread } = fixture()
  const answer = (name: string, left?: 'pending' | 'nothing'): RecalledOrder => ({
    ...{ orderHash: order(name).orderHash, status: 'accepted', matches: 0, timestamp: 0 },
    ...(left === undefined ? {} : { left }),
  })
  recalled.set('closed', reject('ORDER_CLOSED'))
  recalled.set('filled', answer('filled', 'nothing'))
  recalled.set('pending', answer('pending', 'pending'))
  recalled.set('resting', answer('resting'))
  recalled.set('late', reject('OVERLOADED'))
  for (const name of [...recalled.keys(), 'on its way']) place('s', name)
  const { marketId } = order('closed')
  held.missed({ marketId, isClosed: false })
  const left = ['pending', 'resting', 'late', 'on its way']
  await eventually(() => {
    assert.deepEqual(atThread(), left)
    assert.equal(clock.pending, 2)
  })
  recalled.set('late', reject('ORDER_CLOSED'))
  recalled.set('pending', answer('pending', 'nothing'))
  clock.advance(1_000)
  await eventually(() => assert.deepEqual(atThread(), ['pending', 'resting', 'on its way']))
  clock.advance(5_000)
  await eventually(() => assert.deepEqual(atThread(), ['resting', 'on its way']))
  held.missed({ marketId, isClosed: true })
  assert.deepEqual(atThread(), [])
})

test('an order that is placed again and has ended before is held no more', async () => {
  const { held, recalled, order, place, atThread } = fixture()
  recalled.set('a', reject('ORDER_CLOSED'))
  place('s', 'a')
  held.placedAgain('s', order('a').orderHash)
  await eventually(() => assert.deepEqual(atThread(), []))
})
