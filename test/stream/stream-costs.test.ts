/** Requests of the stream are charged before they are carried out, and equal work is done once. */

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { WebSocket as Ws } from 'ws'
import { BOOK_LEVELS_SHOWN_MAX } from '#domain/limits.ts'
import type { LevelBook } from '#live/level-book.ts'
import type { Socket } from '#stream/connection.ts'
import { idOf } from '#stream/frames.ts'
import { eventually } from '../support/eventually.ts'
import { buy } from '../support/orders.ts'
import { type Frame, marketIdOf, startStream } from './stream-fixture.ts'

const M = marketIdOf(0)
const CONFLATED = { op: 'subscribe', channel: 'book', marketId: M, outcome: 0, mode: 'conflate' }

type Draw = { readonly cost: string; readonly weight: number }

/** Wraps a method of the book. The returned object counts the calls whose arguments `isCounted` accepts. */
function counted(
  book: LevelBook,
  method: 'levels' | 'best',
  isCounted: (args: unknown[]) => boolean,
) {
  const calls = { count: 0 }
  const bare = (book[method] as (...args: unknown[]) => unknown).bind(book)
  Object.defineProperty(book, method, {
    value: (...args: unknown[]) => {
      if (isCounted(args)) calls.count++
      return bare(...args)
    },
  })
  return calls
}

test('a deep book is encoded once per change for all readers, and larger snapshots cost more units', async (t) => {
  const drawn: Draw[] = []
  const draw = (what: Draw) => {
    drawn.push(what)
    return { allowed: true }
  }
  const stream = await startStream(t, { parts: { draw } })
  for (let level = 1; level <= 1_200; level++) {
    stream.markets[0]!.place(
      buy('YES')
        .at(level / 10_000)
        .size(1)
        .by('ann')
        .named(`l${level}`),
    )
  }
  stream.flow()
  const book = stream.board.markets.get(M)!.books[0]
  const written = counted(book, 'levels', ([, count]) => count !== 10)
  const client = await stream.connect()
  const { sub } = await client.ask(CONFLATED, 'subscribed')
  const first = await client.next('book.snapshot')
  assert.equal((first.bids as unknown[]).length, BOOK_LEVELS_SHOWN_MAX)
  assert.deepEqual((first.bids as number[][])[0], [120_000, 1_000_000])
  for (let count = 0; count < 20; count++) client.say({ op: 'snapshot', sub })
  await eventually(() => assert.equal(snapshots(client.frames).length, 21))
  assert.equal(written.count, 2, 'both sides, once')
  const weights = drawn.map(({ weight }) => weight)
  // Each request costs 1 unit for its frame and 5 for its snapshot. The snapshot has 1,200 levels, at 250 per unit.
  assert.deepEqual(weights.slice(0, 4), [1, 5, 1, 5])
  assert.equal(weights.length, 42)
  // A second client wants to resume after a position that no event has reached. It gets a reset with the snapshot that
  // was encoded for the first client.
  const other = await stream.connect()
  await other.ask({ ...CONFLATED, since: 999_999_999 }, 'subscribed')
  assert.equal((await other.next('book.snapshot')).reset, true)
  assert.equal(written.count, 2)
  stream.markets[0]!.place(buy('YES').at(0.2).size(1).by('ann').named('new'))
  stream.flow()
  await client.next('book.delta')
  client.say({ op: 'snapshot', sub })
  await eventually(() => assert.equal(snapshots(client.frames).length, 22))
  assert.equal(written.count, 4)
})

const snapshots = (frames: readonly Frame[]) =>
  frames.filter(({ type }) => type === 'book.snapshot')

test('a market’s ticker is encoded once for all ticker subscriptions that contain the market', async (t) => {
  const markets = 40
  const stream = await startStream(t, { markets, settings: { subscriptionsMax: 1_000 } })
  const ids = stream.markets.map((_, index) => marketIdOf(index))
  const written = ids.map((id) =>
    counted(stream.board.markets.get(id)!.books[0], 'best', () => true),
  )
  const client = await stream.connect()
  for (let count = 0; count < markets; count++) {
    const marketIds = ids.filter((_, index) => index !== count)
    client.say({ op: 'subscribe', channel: 'ticker', marketIds })
  }
  const told = (type: string) => client.frames.filter((frame) => frame.type === type)
  await eventually(() => assert.equal(told('ticker.snapshot').length, markets))
  for (const market of stream.markets) {
    market.place(buy('YES').at(0.3).size(1).by('ann').named('b'))
  }
  stream.flow()
  await eventually(() => assert(told('ticker').length >= markets))
  // Encoding a ticker line calls `best` twice, for the bid and the ask of YES. Each market needs two lines, before and
  // after its change, so four calls suffice.
  for (const { count } of written) assert(count <= 4, `${count}`)
  assert.equal(stream.hub.figures().topics, markets)
  client.close()
  await eventually(() => assert.equal(stream.hub.figures().topics, 0, 'sets do not linger'))
})

test('subscriptions are limited per connection and per IP address, and subscriptions to many markets count for more', async (t) => {
  const stream = await startStream(t, {
    markets: 30,
    settings: { subscriptionsMax: 10, subscriptionsPerIp: 15 },
  })
  const ids = stream.markets.map((_, index) => marketIdOf(index))
  const set = (from: number, count: number) => ({
    ...{ op: 'subscribe', channel: 'ticker' },
    marketIds: ids.slice(from, from + count),
  })
  const [one, two] = [await stream.connect(), await stream.connect()]
  const { sub } = await one.ask(set(0, 30), 'subscribed')
  const beyond = await one.ask(set(0, 25), 'error')
  assert.deepEqual([beyond.code, beyond.field], ['RATE_LIMITED', 'channel'])
  assert.equal(stream.hub.figures().topics, 1, 'nothing is left of a set that was refused')
  // This connection already has a subscription to the same markets, so the request does not count against the limit.
  await one.ask(set(0, 30), 'subscribed')
  await two.ask(set(1, 25), 'subscribed')
  await two.ask(set(2, 20), 'subscribed')
  const perAddress = await two.ask({ op: 'subscribe', channel: 'trades', marketId: M }, 'error')
  assert.match(String(perAddress.error), /of an IP address/)
  await one.ask({ op: 'unsubscribe', sub }, 'unsubscribed')
  await two.ask({ op: 'subscribe', channel: 'trades', marketId: M }, 'subscribed')
  one.close()
  two.close()
  await eventually(() => assert.equal(stream.hub.figures().subscriptions, 0))
  const three = await stream.connect()
  await three.ask(set(0, 30), 'subscribed')
})

test('the subscriptions of all connections of a front are limited', async (t) => {
  const stream = await startStream(t, { settings: { subscriptionsTotal: 21 } })
  const [one, two] = [await stream.connect(), await stream.connect()]
  await one.ask({ op: 'subscribe', channel: 'ticker' }, 'subscribed')
  await two.ask({ op: 'subscribe', channel: 'trades', marketId: M }, 'subscribed')
  const refused = await two.ask({ op: 'subscribe', channel: 'market', marketId: M }, 'error')
  assert.equal(refused.code, 'OVERLOADED')
})

test('a client that reads slowly pays rate-limit units for each snapshot that is sent again', async (t) => {
  let isEmpty = false
  const drawn: Draw[] = []
  let refused = 0
  const draw = (what: Draw) => {
    if (isEmpty) refused++
    else drawn.push(what)
    return { allowed: !isEmpty }
  }
  const stream = await startStream(t, {
    parts: { draw },
    settings: { bufferBytesMax: 65_536, heartbeatMs: 160 },
  })
  const sockets: Socket[] = []
  const { opened } = stream.hub
  stream.hub.opened = (ws) => {
    sockets.push(ws)
    opened(ws)
  }
  const client = await stream.connect()
  const { sub } = await client.ask({ ...CONFLATED, mode: 'every' }, 'subscribed')
  const before = drawn.length
  isEmpty = true
  const dropped = new TextEncoder().encode(`{"sub":"${sub}"}`)
  stream.hub.dropped(sockets[0]!, dropped.buffer as ArrayBuffer)
  // At each tick of the heartbeat timer, the stream tries again to charge for the snapshot.
  await eventually(() => assert(refused >= 2))
  assert(!client.frames.some(({ type }) => type === 'lag'), 'there is nothing to pay with')
  isEmpty = false
  await client.next('lag')
  assert.equal(drawn.length, before + 1)
})

test('the faults of an invalid frame are listed only while the IP address has rate-limit units left', async (t) => {
  const drawn: number[] = []
  let left = 9
  const draw = ({ weight }: Draw) => {
    drawn.push(weight)
    left -= weight
    return { allowed: left >= 0 }
  }
  const stream = await startStream(t, { parts: { draw } })
  const client = await stream.connect()
  const misfit = { op: 'subscribe', channel: 'ticker', marketIds: ['0x1'], id: 1 }
  assert.equal((await client.ask(misfit, 'error')).field, 'marketIds[0]')
  const { code, id } = await client.ask({ ...misfit, id: 2 }, 'error')
  assert.deepEqual([code, id], ['RATE_LIMITED', 2])
  assert.deepEqual(drawn, [1, 5, 1, 5])
})

test('the stream reads the id of a refused frame without parsing the whole frame', () => {
  const idIn = (text: string) => idOf(new TextEncoder().encode(text).buffer as ArrayBuffer)
  assert.equal(idIn('{"op":"ping","id":7}'), 7)
  assert.equal(idIn('{"op":"ping", "id": "seven é"}'), 'seven é')
  assert.equal(idIn('{"op":"ping","id":"line\nbreak"'), 'line\nbreak')
  for (const none of [
    '',
    '{',
    '{"id":1.5}',
    '{"id":"a\\u0041"}',
    `{"a":"${'x'.repeat(600)}","id":7}`,
  ]) {
    assert.equal(idIn(none), undefined, none.slice(0, 20))
  }
})

test('a connection that sends a flood of pings is closed', async (t) => {
  const stream = await startStream(t, { settings: { messagesPerSecond: 5, messagesBurst: 5 } })
  const client = new Ws(`${stream.url}/api/v1/stream`)
  await once(client, 'open')
  const closed = once(client, 'close')
  for (let count = 0; count < 200; count++) client.ping()
  const [code] = await closed
  assert.equal(code, 4429)
})

test('a ticker subscription uses rate-limit units for its markets before the stream looks the markets up', async (t) => {
  const markets = 40
  const drawn: number[] = []
  let left = 1_000
  const draw = ({ weight }: Draw) => {
    drawn.push(weight)
    left -= weight
    return { allowed: left >= 0 }
  }
  const stream = await startStream(t, { markets, parts: { draw } })
  const marketIds = Array.from({ length: markets }, (_, at) => marketIdOf(at))
  const client = await stream.connect()
  const subscribe = { op: 'subscribe', channel: 'ticker', marketIds }
  const { sub } = await client.ask(subscribe, 'subscribed')
  assert.deepEqual(drawn.splice(0), [2, 2], 'the frame, and one unit for every 20 markets')
  await client.ask({ op: 'unsubscribe', sub }, 'unsubscribed')
  // The IP address can pay only for the frame. So the request is refused before the unknown market is looked up.
  left = 2
  const unknown = { ...subscribe, marketIds: [...marketIds.slice(1), marketIdOf(markets)] }
  assert.equal((await client.ask(unknown, 'error')).code, 'RATE_LIMITED')
  left = 1_000
  assert.equal((await client.ask(unknown, 'error')).code, 'MARKET_NOT_FOUND')
})

test('without rate-limit units, a connection with long frames is closed after fewer refusals than one with short frames', async (t) => {
  const settings = { messagesPerSecond: 20, messagesBurst: 1_000, payloadBytesMax: 16_384 }
  const stream = await startStream(t, { settings, parts: { draw: () => ({ allowed: false }) } })
  const refusalsBefore = async (frame: string) => {
    const client = await stream.connect()
    for (let count = 0; count < 100; count++) client.say(frame)
    assert.equal((await client.ended()).code, 4429)
    return client.frames.filter(({ type }) => type === 'error').length
  }
  assert.equal(await refusalsBefore('{"op":"ping"}'), 41)
  assert.equal(await refusalsBefore(`{"op":"ping"}${' '.repeat(7 * 2_048)}`), 6)
})

test('a stream is closed at its first refused frame if its IP address keeps exceeding the rate limit', async (t) => {
  const stream = await startStream(t, {
    parts: { draw: () => ({ allowed: false, insists: true }) },
  })
  const client = await stream.connect()
  client.say({ op: 'ping', id: 1 })
  client.say({ op: 'ping', id: 2 })
  assert.equal((await client.ended()).code, 4429)
  const refused = client.frames.filter(({ code }) => code === 'RATE_LIMITED')
  assert.deepEqual(
    refused.map(({ id }) => id),
    [1],
  )
})
