import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type HoldsProtocol, OrderHolds } from '#actors/order-holds.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { reject } from '#domain/rejection.ts'
import type { Ref } from '#runtime/ref.ts'
import { makeHeldOrders } from '#stream/held-orders.ts'
import { signed } from '../actors/market-fixture.ts'
import { eventually } from '../support/eventually.ts'
import { buy, nameOf } from '../support/orders.ts'
import { simulatedClock } from '../support/simulated-clock.ts'

function fixture(perSessionMax = 10) {
  let holds = new OrderHolds()
  const asked: string[] = []
  const failures: string[] = []
  const clock = simulatedClock(0)
  const ref: Ref<HoldsProtocol> = {
    async ask(type, message) {
      return holds.hear(type, message)
    },
    tell: (type, message) => void holds.hear(type, message),
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
    },
    clock,
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
    for (const each of all) holds.hear('HoldOrder', { session: 's', order: each })
    return all.map(({ orderHash }) => nameOf(orderHash))
  }
  return {
    held,
    asked,
    failures,
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
