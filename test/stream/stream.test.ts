import assert from 'node:assert/strict'
import { test } from 'node:test'
import { crc32 } from 'node:zlib'
import { checksumAddress } from '#domain/checksum-address.ts'
import { tradeId } from '#domain/ids.ts'
import type { VerifiedOrder } from '#domain/order.ts'
import { isRejection, reject } from '#domain/rejection.ts'
import type { Principal } from '#http/route.ts'
import type { OrderAccepted } from '#protocol/market.ts'
import { START_SEC, signed } from '../services/market/market-fixture.ts'
import { eventually } from '../support/eventually.ts'
import { buy, nameOf, sell, traderNamed } from '../support/orders.ts'
import { simulatedClock } from '../support/simulated-clock.ts'
import { type Given, marketIdOf, startStream } from './stream-fixture.ts'

const M = marketIdOf(0)
const BOOK = { op: 'subscribe', channel: 'book', marketId: M, outcome: 0 }

function place(market: Given, builder: ReturnType<typeof buy>): void {
  market.place(builder)
}

test('a subscription starts with a snapshot and continues with each change', async (t) => {
  const stream = await startStream(t)
  const [market] = stream.markets
  place(market!, buy('YES').at(0.42).size(10).by('ann').named('a'))
  stream.flow()
  const client = await stream.connect()
  const [hello] = client.frames
  assert.equal(hello?.version, 1)
  assert.equal(hello?.heartbeatMs, 60_000)

  const subscribed = await client.ask({ ...BOOK, id: 7 })
  assert.deepEqual(subscribed, { type: 'subscribed', id: 7, sub: `book:${M}:0`, seq: 2 })
  const snapshot = await client.next()
  assert.equal(snapshot.type, 'book.snapshot')
  assert.equal(snapshot.seq, 2)
  assert.deepEqual(snapshot.bids, [[420_000, 10_000_000]])
  assert.deepEqual(snapshot.asks, [])
  assert.equal(snapshot.checksum, crc32('420000:10000000|'))
  assert.equal(snapshot.reset, undefined)

  place(market!, buy('NO').at(0.1).size(1).by('ann').named('no'))
  place(market!, sell('YES').at(0.5).size(3).by('bob').named('b'))
  stream.flow()
  const delta = await client.next()
  assert.equal(delta.type, 'book.delta')
  assert.deepEqual([delta.prevSeq, delta.seq], [2, 4])
  assert.deepEqual([delta.bids, delta.asks], [[], [[500_000, 3_000_000]]])
  assert.equal(delta.checksum, crc32('420000:10000000|500000:3000000'))

  place(market!, sell('YES').at(0.42).size(10).by('bob').named('c'))
  stream.flow()
  const matched = await client.next()
  assert.deepEqual([matched.prevSeq, matched.bids, matched.asks], [4, [[420_000, 0]], []])
  assert.equal(matched.checksum, crc32('|500000:3000000'))
})

test('sizes beyond 2^53 are exact in the stream', async (t) => {
  const stream = await startStream(t)
  const [market] = stream.markets
  for (const name of ['a', 'b', 'c']) {
    place(market!, buy('YES').at(0.42).exactly(Number.MAX_SAFE_INTEGER).by('ann').named(name))
  }
  stream.flow()
  const ws = new WebSocket(`${stream.url}/api/v1/stream`)
  const texts: string[] = []
  ws.addEventListener('message', ({ data }) => texts.push(data as string))
  ws.addEventListener('open', () => ws.send(JSON.stringify(BOOK)))
  const text = await eventually(() => texts[2] ?? assert.fail('no snapshot'))
  const total = 3n * BigInt(Number.MAX_SAFE_INTEGER)
  assert.ok(text.includes(`"bids":[[420000,${total}]]`), text)
  assert.ok(text.includes(`"checksum":${crc32(`420000:${total}|`)}`), text)
  ws.close()
})

test('all trades of a match are sent, with their states on chain', async (t) => {
  const stream = await startStream(t)
  const [market] = stream.markets
  place(market!, sell('YES').at(0.4).size(1).by('ann').named('a'))
  place(market!, sell('YES').at(0.41).size(2).by('bob').named('b'))
  stream.flow()
  const client = await stream.connect()
  const { seq } = await client.ask({ op: 'subscribe', channel: 'trades', marketId: M })
  assert.equal(seq, 1)
  const snapshot = await client.next('trades.snapshot')
  assert.deepEqual(snapshot.trades, [])
  place(market!, buy('YES').at(0.5).size(3).by('cat').named('c'))
  stream.flow()
  const first = await client.next('trade')
  const second = await client.next('trade')
  assert.equal(first.tradeId, tradeId(M, 4, 0))
  assert.deepEqual([first.fill, first.fills, first.prevSeq, first.seq], [1, 2, 1, 4])
  assert.deepEqual([second.fill, second.fills, second.prevSeq, second.seq], [2, 2, 4, 4])
  assert.deepEqual([first.price, first.size, first.takerSide], [400_000, 1_000_000, 0])
  assert.equal(first.buyer, checksumAddress(traderNamed('cat')))
  assert.equal(first.seller, checksumAddress(traderNamed('ann')))
  assert.equal(first.status, 'matched')
  market!.report('c', { status: 'submitted' })
  stream.flow()
  const status = await client.next('trade.status')
  assert.equal(status.tradeId, tradeId(M, 4, 0))
  assert.deepEqual([status.status, status.prevSeq], ['submitted', 4])
  const late = await stream.connect()
  await late.ask({ op: 'subscribe', channel: 'trades', marketId: M })
  const known = (await late.next('trades.snapshot')).trades as { status: string }[]
  assert.deepEqual(
    known.map((trade) => trade.status),
    ['submitted', 'matched'],
  )
})

test('an orders subscription contains a trader’s orders in all markets, and no orders of other traders', async (t) => {
  const stream = await startStream(t, { markets: 2 })
  const [one, two] = stream.markets
  place(one!, buy('YES').at(0.42).size(10).by('ann').named('a'))
  stream.flow()
  const client = await stream.connect()
  const ann = checksumAddress(traderNamed('ann'))
  const subscribed = await client.ask({ op: 'subscribe', channel: 'orders', trader: ann })
  assert.equal(subscribed.sub, `orders:${ann}`)
  const snapshot = await client.next('orders.snapshot')
  const orders = snapshot.orders as Record<string, unknown>[]
  assert.deepEqual(
    orders.map(({ status, remainingSize, price }) => [status, remainingSize, price]),
    [['accepted', 10_000_000, 420_000]],
  )
  assert.equal(snapshot.cursor, subscribed.seq)
  place(two!, sell('NO').at(0.7).size(5).by('ann').named('b'))
  place(two!, sell('NO').at(0.7).size(5).by('bob').named('x'))
  place(one!, sell('YES').at(0.42).size(4).by('bob').named('y'))
  place(one!, sell('YES').at(0.42).size(6).by('bob').named('z'))
  two!.ask('CancelOrder', { marketId: two!.marketId, ...hashOf(two!, 'b') })
  place(two!, buy('NO').at(0.1).size(1).by('ann').named('w'))
  two!.ask('CloseMarket', { marketId: two!.marketId, reason: 'expired' })
  stream.flow()
  let cursor = snapshot.cursor
  const told: unknown[] = []
  for (let count = 0; count < 6; count++) {
    const news = await client.next()
    assert.equal(news.prevCursor, cursor)
    cursor = news.cursor
    told.push([news.type, news.marketId === M ? 1 : 2, news.status, news.remainingSize])
  }
  assert.deepEqual(told, [
    ['order', 1, 'partially_filled', 6_000_000],
    ['order', 1, 'filled', 0],
    ['order', 2, 'accepted', 5_000_000],
    ['order', 2, 'cancelled', 5_000_000],
    ['order', 2, 'accepted', 1_000_000],
    ['orders.ended', 2, 'expired', undefined],
  ])
})

function hashOf(market: Given, name: string) {
  const order = signed(sell('NO').by('ann').named(name), market.marketId)
  return { orderHash: order.orderHash, side: order.side }
}

test('a client that resubscribes gets missed messages from memory, or a snapshot marked as a reset', async (t) => {
  const stream = await startStream(t, { settings: { replayMessages: 3 } })
  const [market] = stream.markets
  const first = await stream.connect()
  await first.ask(BOOK, 'book.snapshot')
  for (const name of ['a', 'b', 'c', 'd', 'e']) {
    place(market!, buy('YES').at(0.42).size(1).by('ann').named(name))
  }
  stream.flow()
  first.close()
  const second = await stream.connect()
  assert.equal((await second.ask({ ...BOOK, since: 4 })).seq, 4)
  assert.deepEqual([(await second.next()).seq, (await second.next()).seq], [5, 6])
  await second.ask({ op: 'unsubscribe', sub: `book:${M}:0` }, 'unsubscribed')
  assert.equal((await second.ask({ ...BOOK, since: 2 })).seq, 6)
  const snapshot = await second.next()
  assert.deepEqual([snapshot.type, snapshot.reset, snapshot.seq], ['book.snapshot', true, 6])
  await second.ask({ op: 'unsubscribe', sub: `book:${M}:0` }, 'unsubscribed')
  // The position 7 is ahead of all events, so it belongs to a log that no longer exists. The client gets a reset.
  await second.ask({ ...BOOK, since: 7 })
  assert.equal((await second.next()).reset, true)
  const again = await second.ask({ op: 'snapshot', sub: `book:${M}:0` })
  assert.deepEqual([again.type, again.reset, again.seq], ['book.snapshot', undefined, 6])
})

test('a subscription to orders resumes at a known cursor, and gets a snapshot for an unknown cursor', async (t) => {
  const stream = await startStream(t)
  const [market] = stream.markets
  const trader = checksumAddress(traderNamed('ann'))
  const subscribe = { op: 'subscribe', channel: 'orders', trader }
  const first = await stream.connect()
  await first.ask(subscribe)
  const { cursor } = await first.next('orders.snapshot')
  place(market!, buy('YES').at(0.42).size(1).by('ann').named('a'))
  stream.flow()
  const { cursor: later } = await first.next('order')
  first.close()
  const second = await stream.connect()
  const resumed = await second.ask({ ...subscribe, since: cursor })
  assert.equal(resumed.seq, cursor)
  assert.equal((await second.next()).cursor, later)
  const third = await stream.connect()
  await third.ask({ ...subscribe, since: 'from-another-life.3' })
  const snapshot = await third.next()
  assert.deepEqual(
    [snapshot.type, snapshot.reset, snapshot.cursor],
    ['orders.snapshot', true, later],
  )
})

test('after a front reloads a market, each subscriber gets a snapshot marked as a reset', async (t) => {
  const stream = await startStream(t)
  const [market] = stream.markets
  const client = await stream.connect()
  const trader = traderNamed('ann')
  await client.ask(BOOK, 'book.snapshot')
  await client.ask({ op: 'subscribe', channel: 'trades', marketId: M }, 'trades.snapshot')
  await client.ask({ op: 'subscribe', channel: 'market', marketId: M }, 'market.snapshot')
  await client.ask({ op: 'subscribe', channel: 'market' }, 'market.snapshot')
  await client.ask({ op: 'subscribe', channel: 'orders', trader }, 'orders.snapshot')
  place(market!, buy('YES').at(0.42).size(1).by('ann').named('a'))
  stream.lose()
  const told = await eventually(() => {
    const resets = client.frames.filter(({ reset }) => reset === true)
    assert.equal(resets.length, 5)
    return resets
  })
  const book = told.find(({ type }) => type === 'book.snapshot')
  assert.deepEqual([book?.seq, book?.bids], [2, [[420_000, 1_000_000]]])
  const orders = told.find(({ type }) => type === 'orders.snapshot')
  assert.equal((orders?.orders as unknown[] | undefined)?.length, 1)
  place(market!, buy('YES').at(0.42).size(1).by('ann').named('b'))
  stream.flow()
  assert.deepEqual(
    client.frames.filter(({ type }) => type === 'book.delta').length,
    0,
    'nothing was told in between',
  )
  const delta = await client.next('book.delta')
  assert.equal(delta.prevSeq, 2)
  const order = await client.next('order')
  assert.equal(order.prevCursor, orders?.cursor)
})

test('market subscribers receive the openings and closings of markets', async (t) => {
  const stream = await startStream(t)
  const [market] = stream.markets
  const client = await stream.connect()
  await client.ask({ op: 'subscribe', channel: 'market', marketId: M })
  const { state, cursor } = await client.next('market.snapshot')
  assert.equal(state, 'open')
  await client.ask({ op: 'subscribe', channel: 'market' })
  const all = await client.next('market.snapshot')
  assert.equal(all.count, 1)
  await client.ask(BOOK, 'book.snapshot')
  place(market!, buy('YES').at(0.42).size(1).by('ann').named('a'))
  market!.ask('CloseMarket', { marketId: M, reason: 'resolved' })
  stream.flow()
  await client.next('book.delta')
  const emptied = await client.next('book.snapshot')
  assert.deepEqual([emptied.bids, emptied.checksum], [[], crc32('|')])
  const one = await client.next('market')
  assert.deepEqual([one.event, one.prevCursor, one.seq], ['resolved', cursor, 3])
  const every = await client.next('market')
  assert.deepEqual([every.sub, every.prevCursor], ['market', all.cursor])
})

test('a conflated book subscription sends the combined changes at intervals', async (t) => {
  const stream = await startStream(t)
  const [market] = stream.markets
  const client = await stream.connect()
  const subscribe = { ...BOOK, mode: 'conflate', maxHz: 20 }
  const { sub } = await client.ask(subscribe)
  assert.equal(sub, `book:${M}:0:20`)
  await client.next('book.snapshot')
  for (const name of ['a', 'b', 'c']) {
    place(market!, buy('YES').at(0.42).size(1).by('ann').named(name))
  }
  place(market!, sell('YES').at(0.5).size(1).by('bob').named('d'))
  stream.flow()
  // A second client subscribes when the book has changed, but the message with the change is not sent yet. Its snapshot
  // is sent together with this message.
  const late = await stream.connect()
  await late.ask(subscribe)
  const delta = await client.next()
  assert.equal(delta.type, 'book.delta')
  assert.deepEqual([delta.prevSeq, delta.seq], [1, 5])
  assert.deepEqual([delta.bids, delta.asks], [[[420_000, 3_000_000]], [[500_000, 1_000_000]]])
  const snapshot = await late.next('book.snapshot')
  assert.deepEqual([snapshot.seq, snapshot.checksum], [5, delta.checksum])
})

test('a heartbeat has the last position of each subscription', async (t) => {
  const stream = await startStream(t, { settings: { heartbeatMs: 160 } })
  const client = await stream.connect()
  await client.ask(BOOK, 'book.snapshot')
  const { sub, seq: cursor } = await client.ask({
    op: 'subscribe',
    channel: 'orders',
    trader: traderNamed('ann'),
  })
  await client.next('orders.snapshot')
  await eventually(() => {
    const beat = client.frames.findLast(({ type }) => type === 'heartbeat')
    assert.deepEqual(beat?.subs, { [`book:${M}:0`]: 1, [sub as string]: cursor })
  })
})

test('orders are placed over the stream, with authentication if it is required', async (t) => {
  const address = traderNamed('ann')
  const accepted: OrderAccepted = {
    orderHash: signed(buy('YES').named('a')).orderHash,
    status: 'accepted',
    matches: 0,
    timestamp: START_SEC,
  }
  const asked: unknown[] = []
  const stream = await startStream(t, {
    parts: {
      bearer: true,
      orders: {
        async verify(submission) {
          asked.push(submission)
          return signed(buy('YES').by('ann').named('a'), M)
        },
        enter: async () => accepted,
      },
      authenticator: {
        identify: async (header) =>
          header === 'Bearer good'
            ? { keyId: 'k', address }
            : reject('UNAUTHORIZED_INVALID_SIGNATURE'),
      },
      gateway: {
        openOrdersPage: async () => ({ orders: [], count: 0 }),
        cancel: async (order) => {
          asked.push(order)
          return { status: 'cancelled', orderHash: order.orderHash }
        },
      },
    },
  })
  const client = await stream.connect()
  const { marketId, trader, ...rest } = signed(buy('YES').by('ann').named('a'), M)
  const order = {
    marketId: marketId.toUpperCase().replace('0X', '0x'),
    trader,
    side: rest.side,
    outcome: rest.outcome,
    price: rest.price,
    size: rest.size,
    nonce: rest.nonce,
    expiration: rest.expiration,
    makerFeeRecipient: rest.makerFeeRecipient,
  }
  const submit = { op: 'place', id: 'p', order, signature: rest.signature }
  const cancel = { op: 'cancel', id: 'c', marketId: M, orderHash: rest.orderHash, side: 'sell' }
  assert.equal((await client.ask(submit)).code, 'UNAUTHORIZED_MISSING_HEADER')
  assert.equal((await client.ask(cancel)).code, 'UNAUTHORIZED_MISSING_HEADER')
  const refused = await client.ask({ op: 'auth', id: 1, token: 'bad' })
  assert.deepEqual([refused.id, refused.code], [1, 'UNAUTHORIZED_INVALID_SIGNATURE'])
  const known = await client.ask({ op: 'auth', token: 'good' })
  assert.deepEqual(known, { type: 'authenticated', address: checksumAddress(address) })
  const placed = await client.ask(submit)
  assert.deepEqual(placed, { type: 'placed', ...accepted, id: 'p' })
  const cancelled = await client.ask(cancel)
  assert.deepEqual(cancelled, { type: 'cancelled', orderHash: rest.orderHash, id: 'c' })
  assert.deepEqual(asked, [
    { order: { ...order, marketId: M }, signature: rest.signature },
    { marketId: M, orderHash: rest.orderHash, side: 1, trader: address },
  ])
  stream.hub.revoked(['k'])
  const told = await client.next('error')
  assert.deepEqual([told.id, told.code], [undefined, 'UNAUTHORIZED_KEY_INACTIVE'])
  assert.equal((await client.ask(submit)).code, 'UNAUTHORIZED_MISSING_HEADER')
})

test('a delegate can cancel over the stream for the account that it names, and a stranger cannot', async (t) => {
  const [ann, bot] = [traderNamed('ann'), traderNamed('bot')]
  const { orderHash } = signed(buy('YES').by('ann').named('a'), M)
  const asked: unknown[] = []
  const actsFor = (named: string | undefined, by: Principal) =>
    named === ann && by.address === bot ? ann : reject('NOT_ORDER_OWNER', 'trader')
  const stream = await startStream(t, {
    parts: {
      bearer: true,
      authenticator: {
        identify: async (header) => ({
          ...{ keyId: 'k', address: header === 'Bearer bot' ? bot : traderNamed('cat') },
        }),
      },
      own: {
        traderOf: async (by, named, marketId) => {
          asked.push({ named, marketId })
          return actsFor(named, by)
        },
        async cancelAll(by, { trader, ...where }) {
          const acting = actsFor(trader, by)
          if (isRejection(acting)) return acting
          return { status: 'cancelled', count: 0, orderHashes: [], ...where }
        },
        async deadman(by, { trader, afterMs }) {
          const acting = actsFor(trader, by)
          return isRejection(acting) ? acting : { status: 'on', cancelsAtMs: afterMs }
        },
      },
      gateway: {
        openOrdersPage: async () => ({ orders: [], count: 0 }),
        cancel: async (order) => {
          asked.push(order)
          return { status: 'cancelled', orderHash: order.orderHash }
        },
      },
    },
  })
  const requests = [
    { op: 'cancel', marketId: M, orderHash, side: 'sell', trader: ann },
    { op: 'cancelAll', marketId: M, trader: ann },
    { op: 'deadman', afterMs: 60_000, trader: ann },
  ]
  const answersOf = async (token: string) => {
    const client = await stream.connect()
    await client.ask({ op: 'auth', token }, 'authenticated')
    const answers = []
    for (const request of requests) {
      const { type, code } = await client.ask(request)
      answers.push(code ?? type)
    }
    return answers
  }
  assert.deepEqual(await answersOf('bot'), ['cancelled', 'cancelledAll', 'deadman'])
  assert.deepEqual(asked.splice(0), [
    { named: ann, marketId: M },
    { marketId: M, orderHash, side: 1, trader: ann },
  ])
  assert.deepEqual(await answersOf('cat'), Array(3).fill('NOT_ORDER_OWNER'))
  assert.deepEqual(asked, [{ named: ann, marketId: M }], 'no market is asked')
})

test('an order with cancel-on-disconnect carries its session’s id, and is not placed after the session’s end', async (t) => {
  const order = signed(buy('YES').by('ann').named('a'), M)
  const verifying = Promise.withResolvers<VerifiedOrder>()
  const story: unknown[] = []
  const answers = [reject('OVERLOADED'), reject('OUTCOME_UNKNOWN'), reject('MARKET_CLOSED')]
  let isSlow = false
  const stream = await startStream(t, {
    parts: {
      orders: {
        verify: async () => (isSlow ? verifying.promise : order),
        async enter({ orderHash }, { session }) {
          story.push({ entered: nameOf(orderHash), session })
          return answers.shift() ?? assert.fail()
        },
      },
      held: {
        hold: (session) => void story.push({ held: session }),
        end: (session) => void story.push({ ended: session }),
        keep: (session) => void story.push({ kept: session }),
        claim: async () => {},
        settled: async () => {},
      },
      authenticator: { identify: async () => ({ keyId: 'k', address: traderNamed('ann') }) },
    },
  })
  const client = await stream.connect()
  const { session } = client.frames.find(({ type }) => type === 'hello')!
  await client.ask({ op: 'auth', token: 'good' }, 'authenticated')
  const { orderHash: _, signature, ...terms } = order
  const submit = { op: 'place', order: terms, signature }
  assert.equal((await client.ask(submit)).code, 'OVERLOADED')
  assert.deepEqual(story.splice(0), [{ entered: 'a', session: undefined }])

  await client.ask({ op: 'cancelOnDisconnect', enabled: true }, 'cancelOnDisconnect')
  assert.equal((await client.ask(submit)).code, 'OUTCOME_UNKNOWN')
  assert.deepEqual(story.splice(0), [{ held: session }, { entered: 'a', session }])
  assert.equal((await client.ask(submit)).code, 'MARKET_CLOSED')
  assert.deepEqual(story.splice(0), [{ entered: 'a', session }])

  // A client disconnects while its order is being verified. The order should end with its session, so it is not placed.
  isSlow = true
  client.say(submit)
  await client.ask({ op: 'ping' }, 'pong')
  client.close()
  await eventually(() => assert.equal(stream.hub.figures().connections, 0))
  verifying.resolve(order)
  await verifying.promise
  await new Promise((resolve) => setImmediate(resolve))
  assert.deepEqual(story, [{ ended: session }])
})

test('when an API key expires, its stream session ends, but the subscriptions of the connection continue', async (t) => {
  const address = traderNamed('ann')
  const clock = simulatedClock(START_SEC * 1_000)
  const identities: Record<string, Principal> = {
    soon: { keyId: 'k', address, expiresAtSec: START_SEC + 100 },
    later: { keyId: 'l', address, expiresAtSec: START_SEC + 900 },
    never: { keyId: 'm', address },
  }
  const stream = await startStream(t, {
    settings: { heartbeatMs: 16_000 },
    parts: {
      bearer: true,
      clock,
      authenticator: { identify: async (header) => identities[header.slice(7)]! },
      gateway: {
        openOrdersPage: async () => ({ orders: [], count: 0 }),
        cancel: async ({ orderHash }) => ({ status: 'cancelled', orderHash }),
      },
    },
  })
  const { orderHash } = signed(buy('YES').by('ann').named('a'), M)
  const cancel = { op: 'cancel', marketId: M, orderHash }
  const clients = new Map<string, Awaited<ReturnType<typeof stream.connect>>>()
  for (const token of ['soon', 'later', 'never']) {
    const client = await stream.connect()
    clients.set(token, client)
    await client.ask({ op: 'auth', token }, 'authenticated')
    assert.equal((await client.ask(cancel)).type, 'cancelled')
  }
  const soon = clients.get('soon')!
  await soon.ask(BOOK, 'book.snapshot')
  clock.advance(99_000)
  assert.equal((await soon.ask(cancel, 'cancelled')).orderHash, orderHash)
  // The session ends by itself within two seconds of the key's expiration.
  clock.advance(2_000)
  const told = await soon.next('error')
  assert.deepEqual([told.id, told.code], [undefined, 'UNAUTHORIZED_KEY_EXPIRED'])
  assert.equal(told.error, 'API key has expired')
  assert.equal((await soon.ask(cancel, 'error')).code, 'UNAUTHORIZED_MISSING_HEADER')
  place(stream.markets[0]!, buy('YES').at(0.42).size(1).by('bob').named('b'))
  stream.flow()
  await soon.next('book.delta')
  for (const token of ['later', 'never']) {
    assert.equal((await clients.get(token)!.ask(cancel, 'cancelled')).type, 'cancelled')
  }
  await soon.ask({ op: 'auth', token: 'never' }, 'authenticated')
  assert.equal((await soon.ask(cancel, 'cancelled')).type, 'cancelled')
})

test('an API key that is revoked during its authentication opens no session', async (t) => {
  const gate = Promise.withResolvers<void>()
  const asked = Promise.withResolvers<void>()
  const stream = await startStream(t, {
    parts: {
      bearer: true,
      authenticator: {
        async identify() {
          asked.resolve()
          await gate.promise
          return { keyId: 'k', address: traderNamed('ann') }
        },
      },
    },
  })
  const client = await stream.connect()
  client.say({ op: 'auth', id: 1, token: 'good' })
  await asked.promise
  stream.hub.revoked(['k'])
  gate.resolve()
  const answer = await client.next()
  assert.deepEqual([answer.id, answer.code], [1, 'UNAUTHORIZED_KEY_INACTIVE'])
})

test('on shutdown every stream client receives a delay after which to reconnect', async (t) => {
  const stream = await startStream(t)
  const client = await stream.connect()
  stream.hub.shutdown()
  const { reconnectInMs } = await client.next('shutdown')
  assert.ok(Number(reconnectInMs) < 100)
  assert.equal((await client.ended()).code, 1012)
  const response = await fetch(`${stream.url.replace('ws', 'http')}/healthz`)
  assert.equal(response.status, 200)
  const { figures } = stream.hub
  assert.equal(figures().connections, 0)
  assert.equal(figures().subscriptions, 0)
})

test('a ping over the stream is answered', async (t) => {
  const stream = await startStream(t)
  const client = await stream.connect()
  const pong = await client.ask({ op: 'ping', id: 3 })
  assert.deepEqual([pong.type, pong.id, typeof pong.ts], ['pong', 3, 'number'])
})

test('on shutdown the stream answers requests in flight before it closes the client’s connection', async (t) => {
  const gate = Promise.withResolvers<void>()
  const asked = Promise.withResolvers<void>()
  const stream = await startStream(t, {
    parts: {
      gateway: {
        openOrdersPage: async () => ({ orders: [], count: 0 }),
        async cancel() {
          asked.resolve()
          await gate.promise
          return reject('ORDER_CLOSED')
        },
      },
    },
  })
  const busy = await stream.connect()
  const quiet = await stream.connect()
  const cancel = { op: 'cancel', marketId: marketIdOf(0), orderHash: `0x${'ab'.repeat(32)}` }
  busy.say({ ...cancel, id: 1 })
  await asked.promise
  const done = stream.hub.shutdown()
  await busy.next('shutdown')
  // The client may have sent this request before it received the shutdown notice, so the exchange still answers the
  // request.
  busy.say({ ...cancel, id: 2 })
  assert.equal((await quiet.ended()).code, 1012)
  assert.equal(busy.closed, undefined)
  gate.resolve()
  assert.equal((await busy.ended()).code, 1012)
  const answers = busy.frames.filter(({ type }) => type === 'error')
  assert.deepEqual(
    answers.map(({ id, code }) => [id, code]),
    [
      [1, 'ORDER_CLOSED'],
      [2, 'ORDER_CLOSED'],
    ],
  )
  await done
})

test('an immediate shutdown of the stream does not wait for requests in flight', async (t) => {
  const asked = Promise.withResolvers<void>()
  const stream = await startStream(t, {
    parts: {
      gateway: {
        openOrdersPage: async () => ({ orders: [], count: 0 }),
        cancel() {
          asked.resolve()
          return new Promise(() => undefined)
        },
      },
    },
  })
  const client = await stream.connect()
  client.say({ op: 'cancel', id: 1, marketId: marketIdOf(0), orderHash: `0x${'ab'.repeat(32)}` })
  await asked.promise
  await stream.hub.shutdown({ atOnce: true })
  assert.equal((await client.ended()).code, 1012)
})

test('a snapshot is marked as stale only while the front cannot confirm that its market data are current', async (t) => {
  let cut: readonly string[] = []
  const other = marketIdOf(1)
  const stream = await startStream(t, {
    markets: 2,
    isCurrent: (marketId) => (marketId === undefined ? cut.length === 0 : !cut.includes(marketId)),
  })
  const client = await stream.connect()
  const marks = async () => {
    const found: Record<string, unknown> = {}
    const asked = [
      ...[M, other].map((marketId) => ({ channel: 'book', marketId, outcome: 0 })),
      ...[M, other].map((marketId) => ({ channel: 'trades', marketId })),
      ...[M, other].map((marketId) => ({ channel: 'market', marketId })),
      ...[{ channel: 'market' }, { channel: 'ticker' }, { channel: 'ticker', marketIds: [other] }],
    ]
    for (const [at, wanted] of asked.entries()) {
      const { sub } = await client.ask({ op: 'subscribe', ...wanted }, 'subscribed')
      const snapshot = await client.next(`${wanted.channel}.snapshot`)
      found[`${at} ${wanted.channel}`] = snapshot.stale
      await client.ask({ op: 'unsubscribe', sub }, 'unsubscribed')
    }
    return Object.entries(found).flatMap(([name, stale]) => (stale === true ? [name] : []))
  }
  assert.deepEqual(await marks(), [])
  cut = [M]
  assert.deepEqual(await marks(), ['0 book', '2 trades', '4 market', '6 market', '7 ticker'])
  cut = []
  assert.deepEqual(await marks(), [])
})
