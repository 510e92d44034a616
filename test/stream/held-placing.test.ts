import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { makeOrderService } from '#api/orders/order-service.ts'
import type { VerifiedOrder } from '#domain/order.ts'
import { reject } from '#domain/rejection.ts'
import type { MarketGateway } from '#live/market-gateway.ts'
import type { SessionsProtocol } from '#protocol/market-followers.ts'
import { systemClock } from '#runtime/clock.ts'
import type { Ref } from '#runtime/ref.ts'
import { type HeldOrder, SessionIndex } from '#services/market/held.ts'
import { makeSessionOrders } from '#services/market/thread/session-orders.ts'
import { makeHeldSessions } from '#stream/held-sessions.ts'
import { type given, signed } from '../services/market/market-fixture.ts'
import { eventually } from '../support/eventually.ts'
import { buy, nameOf, traderNamed } from '../support/orders.ts'
import { marketIdOf, startStream } from './stream-fixture.ts'

type Given = ReturnType<typeof given>

/** Makes the part of a market thread that tracks the orders of stream sessions, and links a front to it. */
function marketThread(market: () => Given) {
  const sessions = { index: new SessionIndex(), ordersMax: 10 }
  const { index } = sessions
  const orders = makeSessionOrders(
    index,
    { log: { warn() {} } as never, monotonicMs: () => 0 },
    {
      hear(type, message, _replyTo, channel) {
        const { orderHash, side, marketId } = message as HeldOrder
        const answer = market().ask(type as 'CancelOrder', { marketId, orderHash, side })
        channel?.reply(1, answer)
      },
    },
  )
  const front = orders.link()
  const ref: Ref<SessionsProtocol> = {
    ask: (type, message) =>
      new Promise((resolve) => void front.handlers[type](message as never, resolve as never)),
    tell: () => assert.fail('each message is answered'),
    isOpen: true,
    peerSentAtMs: 0,
  }
  const held = () => index.sessions().flatMap((each) => index.ordersOf(each).map(hashOf))
  return { sessions, front, ref, held }
}

const hashOf = ({ orderHash }: HeldOrder) => orderHash

/**
 * Connects a client that has turned on `cancelOnDisconnect` and sent an order. The order's funds are not reserved until
 * the test resolves `reserving`.
 */
async function givenReserving(t: TestContext) {
  const order = signed(buy('YES').by('ann').named('a'), marketIdOf(0))
  const reserving = Promise.withResolvers<undefined>()
  const reserved = Promise.withResolvers<void>()
  const thread = marketThread(() => stream.markets[0]!)
  let placed = 0
  /** Passes orders and cancellations to the market of the test, in place of a market thread. */
  const gateway: Pick<MarketGateway, 'place' | 'placeAll' | 'recall' | 'cancel' | 'standing'> = {
    async place(taken, { session }) {
      const message = { order: taken, ...(session === undefined ? {} : { session }) }
      if (session !== undefined) thread.front.placed(session, taken.orderHash)
      placed++
      return stream.markets[0]!.ask('PlaceOrder', message)
    },
    async cancel({ marketId, orderHash, side }) {
      return stream.markets[0]!.ask('CancelOrder', { marketId, orderHash, side })
    },
    placeAll: async () => reject('INTERNAL'),
    recall: async () => undefined,
    standing: async () => undefined,
  }
  const held = makeHeldSessions({ threads: [thread.ref], clock: systemClock })
  const enter = (verified: VerifiedOrder, context: Parameters<typeof service.enter>[1]) =>
    service.enter(verified, context)
  const stream = await startStream(t, {
    sessions: thread.sessions,
    parts: {
      gateway: { openOrdersPage: async () => ({ orders: [], count: 0 }), cancel: gateway.cancel },
      orders: { verify: async () => order, enter },
      held,
      authenticator: { identify: async () => ({ keyId: 'k', address: traderNamed('ann') }) },
    },
  })
  const service = makeOrderService({
    ...{ board: stream.board, gateway, clock: systemClock, expirationDaysMax: 1e9 },
    verifier: { inspect: async () => reject('INTERNAL'), verified: () => order },
    funds: {
      reserve() {
        reserved.resolve()
        return reserving.promise
      },
      release() {},
      check: async () => undefined,
      funds: async () => reject('INTERNAL'),
    },
  })
  const client = await stream.connect()
  await client.ask({ op: 'auth', token: 'good' }, 'authenticated')
  await client.ask({ op: 'cancelOnDisconnect', enabled: true }, 'cancelOnDisconnect')
  const { orderHash: _, signature, ...terms } = order
  client.say({ op: 'place', order: terms, signature })
  await reserved.promise
  return {
    ...{ client, held, reserving },
    async gone() {
      client.close()
      await eventually(() => assert.equal(stream.hub.figures().connections, 0))
    },
    close: () =>
      stream.markets[0]!.ask('CloseMarket', { marketId: marketIdOf(0), reason: 'resolved' }),
    resting: () => stream.markets[0]!.state.books[0].count,
    placed: () => placed,
    atThread: () => thread.held().map(nameOf),
  }
}

test('an order does not stay open if its client disconnects while the order’s funds are being reserved', async (t) => {
  const { held, reserving, gone, resting, placed, atThread } = await givenReserving(t)
  await gone()
  await held.settled()
  reserving.resolve(undefined)
  await eventually(() => {
    assert.equal(placed(), 1)
    assert.equal(resting(), 0)
    assert.deepEqual(atThread(), [])
  })
})

test('an order outlives its session if cancel-on-disconnect is turned off while funds are being reserved', async (t) => {
  const { client, held, reserving, gone, resting, atThread } = await givenReserving(t)
  await client.ask({ op: 'cancelOnDisconnect', enabled: false }, 'cancelOnDisconnect')
  reserving.resolve(undefined)
  await client.next('placed')
  await held.settled()
  assert.deepEqual(atThread(), [], 'its log has it as one that stays')
  await gone()
  await held.settled()
  assert.equal(resting(), 1)
})

test('an order is cancelled with its session if cancel-on-disconnect was turned off and then on again', async (t) => {
  const { client, held, reserving, gone, resting, atThread } = await givenReserving(t)
  for (const enabled of [false, true]) {
    await client.ask({ op: 'cancelOnDisconnect', enabled }, 'cancelOnDisconnect')
  }
  reserving.resolve(undefined)
  await client.next('placed')
  assert.deepEqual(atThread(), ['a'])
  await gone()
  await held.settled()
  assert.equal(resting(), 0)
  assert.deepEqual(atThread(), [])
})

test('an order that its market refuses after the client disconnected is not recorded for any session', async (t) => {
  const { held, close, reserving, gone, placed, atThread } = await givenReserving(t)
  await gone()
  await held.settled()
  close()
  reserving.resolve(undefined)
  await eventually(() => {
    assert.equal(placed(), 1)
    assert.deepEqual(atThread(), [])
  })
})

test('a session with cancel-on-disconnect can place only orders of its own trader', async (t) => {
  const order = signed(buy('YES').by('ann').named('a'), marketIdOf(0))
  const { orderHash: _, signature, ...terms } = order
  const thread = marketThread(() => stream.markets[0]!)
  const entered: (string | undefined)[] = []
  const stream = await startStream(t, {
    sessions: thread.sessions,
    parts: {
      gateway: {
        openOrdersPage: async () => ({ orders: [], count: 0 }),
        cancel: async ({ marketId, orderHash, side }) =>
          stream.markets[0]!.ask('CancelOrder', { marketId, orderHash, side }),
      },
      orders: {
        verify: async () => order,
        async enter(verified, { session }) {
          entered.push(session)
          if (session !== undefined) thread.front.placed(session, verified.orderHash)
          const message = { order: verified, ...(session === undefined ? {} : { session }) }
          return stream.markets[0]!.ask('PlaceOrder', message)
        },
      },
      held: makeHeldSessions({ threads: [thread.ref], clock: systemClock }),
      authenticator: {
        identify: async (header) => ({ keyId: 'k', address: traderNamed(header.slice(7)) }),
      },
    },
  })
  const owner = await stream.connect()
  await owner.ask({ op: 'auth', token: 'ann' }, 'authenticated')
  await owner.ask({ op: 'place', order: terms, signature }, 'placed')

  const thief = await stream.connect()
  await thief.ask({ op: 'auth', token: 'bob' }, 'authenticated')
  await thief.ask({ op: 'cancelOnDisconnect', enabled: true }, 'cancelOnDisconnect')
  const answer = await thief.ask({ op: 'place', order: terms, signature })
  assert.deepEqual([answer.code, answer.field], ['NOT_ORDER_OWNER', 'order.trader'])
  assert.deepEqual(entered, [undefined], 'the market is not asked')
  thief.close()
  await eventually(() => assert.equal(stream.hub.figures().connections, 1))
  assert.deepEqual(thread.held(), [])
  assert.equal(stream.markets[0]!.state.books[0].count, 1)

  // The order's own trader may add the order to a session later, by submitting it again.
  await owner.ask({ op: 'cancelOnDisconnect', enabled: true }, 'cancelOnDisconnect')
  await owner.ask({ op: 'place', order: terms, signature }, 'placed')
  owner.close()
  await eventually(() => assert.equal(stream.markets[0]!.state.books[0].count, 0))
})
