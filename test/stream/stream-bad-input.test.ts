import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../support/eventually.ts'
import { buy } from '../support/orders.ts'
import { RawStreamClient } from './raw-stream-client.ts'
import { type Frame, marketIdOf, startStream, type TestStream } from './stream-fixture.ts'

const M = marketIdOf(0)
const BOOK = { op: 'subscribe', channel: 'book', marketId: M, outcome: 0 }

/** Asserts that a well-behaved client is served. */
async function othersAreServed(stream: TestStream): Promise<void> {
  const client = await stream.connect()
  assert.equal((await client.ask(BOOK)).type, 'subscribed')
  client.close()
}

test('each invalid stream frame gets an error with a code and the invalid field', async (t) => {
  const stream = await startStream(t)
  const client = await stream.connect()
  const bad: [frame: unknown, code: string, field: string | undefined, id?: unknown][] = [
    ['{', 'INVALID_JSON', undefined],
    ['', 'INVALID_JSON', undefined],
    ['[]', 'INVALID_FIELD', undefined],
    ['"subscribe"', 'INVALID_FIELD', undefined],
    ['null', 'INVALID_FIELD', undefined],
    [{}, 'MISSING_FIELD', 'op'],
    [{ op: 'fly', id: 1 }, 'INVALID_FIELD', 'op', 1],
    [{ op: '__proto__' }, 'INVALID_FIELD', 'op'],
    [{ op: ['subscribe'] }, 'INVALID_FIELD', 'op'],
    [{ op: 'ping', extra: 1 }, 'INVALID_FIELD', 'extra'],
    [{ op: 'ping', id: { a: 1 } }, 'INVALID_FIELD', 'id'],
    [{ op: 'ping', id: 'x'.repeat(65) }, 'INVALID_FIELD', 'id'],
    [{ op: 'subscribe' }, 'MISSING_FIELD', 'channel'],
    [{ op: 'subscribe', channel: 'gossip' }, 'INVALID_FIELD', 'channel'],
    [{ op: 'subscribe', channel: 'constructor' }, 'INVALID_FIELD', 'channel'],
    [{ op: 'subscribe', channel: 'book', outcome: 0 }, 'MISSING_FIELD', 'marketId'],
    [{ ...BOOK, marketId: '0x12' }, 'INVALID_FIELD', 'marketId'],
    [{ ...BOOK, marketId: marketIdOf(77) }, 'MARKET_NOT_FOUND', 'marketId'],
    [{ ...BOOK, outcome: 2 }, 'INVALID_FIELD', 'outcome'],
    [{ ...BOOK, maxHz: 5 }, 'INVALID_FIELD', 'maxHz'],
    [{ ...BOOK, mode: 'conflate', maxHz: 7 }, 'INVALID_FIELD', 'maxHz'],
    [{ ...BOOK, mode: 'some' }, 'INVALID_FIELD', 'mode'],
    [{ ...BOOK, since: -1 }, 'INVALID_FIELD', 'since'],
    [{ ...BOOK, since: 'cursor' }, 'INVALID_FIELD', 'since'],
    [`${JSON.stringify(BOOK).slice(0, -1)},"since":1.5}`, 'INVALID_FIELD', 'since'],
    [{ op: 'subscribe', channel: 'market', since: 3 }, 'INVALID_FIELD', 'since'],
    [{ op: 'subscribe', channel: 'orders', trader: 'ann' }, 'INVALID_FIELD', 'trader'],
    [{ op: 'subscribe', channel: 'price', asset: 'BTC' }, 'ASSET_NOT_FOUND', 'asset'],
    [{ op: 'subscribe', channel: 'quick-market', asset: 'BTC' }, 'ASSET_NOT_FOUND', 'asset'],
    [{ op: 'unsubscribe', sub: 'nothing' }, 'NOT_FOUND', 'sub'],
    [{ op: 'snapshot', sub: 'nothing' }, 'NOT_FOUND', 'sub'],
    [{ op: 'auth', token: 'x' }, 'UNAUTHORIZED_INVALID_TOKEN', undefined],
    [{ op: 'auth' }, 'MISSING_FIELD', 'token'],
    [{ op: 'place', order: {}, signature: '' }, 'MISSING_FIELD', 'order.marketId'],
    [{ op: 'place', signature: '' }, 'MISSING_FIELD', 'order'],
    [{ op: 'cancel', marketId: M }, 'MISSING_FIELD', 'orderHash'],
    [{ op: 'cancelOnDisconnect' }, 'MISSING_FIELD', 'enabled'],
    [{ op: 'cancelOnDisconnect', enabled: true }, 'UNAUTHORIZED_MISSING_HEADER', undefined],
    [{ op: 'cancelAll', marketId: 'M' }, 'INVALID_FIELD', 'marketId'],
    [{ op: 'cancelAll', group: 'a b' }, 'INVALID_FIELD', 'group'],
    [{ op: 'cancelAll' }, 'UNAUTHORIZED_MISSING_HEADER', undefined],
    [{ op: 'deadman' }, 'MISSING_FIELD', 'afterMs'],
    [{ op: 'deadman', afterMs: -1 }, 'INVALID_FIELD', 'afterMs'],
    [{ op: 'deadman', afterMs: 5_000 }, 'UNAUTHORIZED_MISSING_HEADER', undefined],
    ['{"op":"ping","op":"ping"}', 'INVALID_FIELD', 'op'],
    ['['.repeat(5_000), 'INVALID_JSON', undefined],
  ]
  for (const [frame, code, field, id] of bad) {
    const error = await client.ask(frame as object)
    const shown = JSON.stringify(frame)?.slice(0, 80)
    assert.equal(error.type, 'error', shown)
    assert.deepEqual([error.code, error.field, error.id], [code, field, id], shown)
    assert.ok(String(error.error).length > 5)
  }
  client.ws.send(new Uint8Array([1, 2, 3]))
  assert.equal((await client.next()).code, 'INVALID_JSON')
  assert.equal(client.closed, undefined)
  await othersAreServed(stream)
})

test('a connection with more than a hundred malformed frames is closed', async (t) => {
  const stream = await startStream(t)
  const client = await stream.connect()
  for (let count = 0; count < 120; count++) client.say('{')
  assert.equal((await client.ended()).code, 4400)
  const errors = client.frames.filter(({ code }) => code === 'INVALID_JSON')
  assert.equal(errors.length, 101)
  await othersAreServed(stream)
})

test('a connection that sends ten thousand subscription requests gets only the permitted subscriptions', async (t) => {
  const stream = await startStream(t, { settings: { lingeringMax: 20 } })
  const client = await stream.connect()
  for (let count = 0; count < 5_000; count++) {
    const trader = `0x${count.toString(16).padStart(40, '0')}`
    client.say({ op: 'subscribe', channel: 'orders', trader })
    client.say({ op: 'subscribe', channel: 'trades', marketId: marketIdOf(count % 200) })
  }
  await eventually(() => {
    const answers = client.frames.filter(({ type }) => type === 'subscribed' || type === 'error')
    assert.equal(answers.length, 10_000)
  })
  assert.equal(client.frames.filter(({ code }) => code === 'RATE_LIMITED').length > 4_000, true)
  assert.equal(stream.hub.figures().subscriptions, 50)
  assert.ok(stream.hub.figures().topics <= 70)
  assert.equal((await client.ask({ op: 'ping' }, 'pong')).type, 'pong')
})

test('a connection with a frame that is too large is closed', async (t) => {
  const stream = await startStream(t)
  const client = await stream.connect()
  client.say({ op: 'ping', id: 'x'.repeat(20_000) })
  const error = await client.next('error')
  assert.equal(error.code, 'BODY_TOO_LARGE')
  assert.equal((await client.ended()).code, 1009)
  const other = await stream.connect()
  other.say({ op: 'ping', id: 'x'.repeat(1_048_576) })
  await other.ended()
  await othersAreServed(stream)
})

test('a connection that floods the stream gets errors, and then is closed', async (t) => {
  const stream = await startStream(t, { settings: { messagesPerSecond: 10, messagesBurst: 20 } })
  const client = await stream.connect()
  for (let count = 0; count < 25; count++) client.say({ op: 'ping', id: count })
  await eventually(() => assert.equal(client.frames.length, 26))
  const limited = client.frames.filter(({ code }) => code === 'RATE_LIMITED')
  assert.ok(limited.length > 0)
  assert.equal(limited[0]?.id, 20)
  for (let count = 0; count < 1_000; count++) client.say({ op: 'ping' })
  assert.equal((await client.ended()).code, 4429)
  await othersAreServed(stream)
})

test('connections to the stream are limited per IP address and in total', async (t) => {
  const stream = await startStream(t, { settings: { connectionsPerIp: 2 } })
  const first = await stream.connect()
  await stream.connect()
  const refused = new WebSocket(`${stream.url}/api/v1/stream`)
  await new Promise((resolve) => refused.addEventListener('error', resolve))
  first.close()
  await first.ended()
  await eventually(() => assert.equal(stream.hub.figures().connections, 1))
  await stream.connect()
})

test('a GET of the stream’s path without a WebSocket handshake is refused with status 400', async (t) => {
  const stream = await startStream(t)
  const response = await fetch(`${stream.url.replace('ws', 'http')}/api/v1/stream`)
  assert.equal(response.status, 400)
})

/**
 * Places this many orders and sends the resulting messages to the clients. With many orders, the messages exceed every
 * socket buffer.
 */
function pour(stream: TestStream, orders: number, from = 0): void {
  const [market] = stream.markets
  for (let count = 0; count < orders; count++) {
    market!.place(
      buy('YES')
        .at(0.2)
        .size(1)
        .by(`t${(from + count) % 500}`)
        .named(`o${from + count}`),
    )
  }
  stream.flow()
}

/** Returns the gaps between the messages of one book, except the gaps that a `lag` message announced. */
function gapsOf(frames: readonly Frame[]): string[] {
  const gaps: string[] = []
  let last: unknown
  let told = false
  for (const frame of frames) {
    if (frame.type === 'book.snapshot') {
      last = frame.seq
      told = false
    } else if (frame.type === 'lag') told = true
    else if (frame.type === 'book.delta') {
      if (!told && frame.prevSeq !== last)
        gaps.push(`${String(frame.prevSeq)} after ${String(last)}`)
      last = frame.seq
    }
  }
  return gaps
}

test('a client that reads slowly gets a notice and new snapshots, and delays no other client', async (t) => {
  const stream = await startStream(t)
  const slow = new RawStreamClient(`${stream.url}/api/v1/stream`)
  t.after(() => slow.close())
  await eventually(() => assert.equal(slow.frames[0]?.type, 'hello'))
  slow.say(BOOK)
  await eventually(() => assert.equal(slow.frames.length, 3))
  slow.pause()
  const quick = await stream.connect()
  await quick.ask(BOOK, 'book.snapshot')
  let poured = 0
  await eventually(() => {
    pour(stream, 2_000, poured)
    poured += 2_000
    assert.equal(stream.hub.figures().lagging, 1)
  })
  await eventually(() => {
    assert.equal(quick.frames.filter(({ type }) => type === 'book.delta').length, poured)
  })
  assert.deepEqual(gapsOf(quick.frames), [])
  assert.ok(quick.frames.every(({ type }) => type !== 'lag'))
  pour(stream, 100, poured)
  poured += 100
  slow.resume()
  await eventually(() => assert.ok(slow.frames.some(({ type }) => type === 'lag')))
  await eventually(() => assert.equal(slow.frames.at(-1)?.seq, poured + 1))
  pour(stream, 10, poured)
  poured += 10
  await eventually(() => assert.equal(slow.frames.at(-1)?.seq, poured + 1))
  assert.equal(stream.hub.figures().lagging, 0)
  const lag = slow.frames.find(({ type }) => type === 'lag')
  assert.equal(lag?.sub, `book:${M}:0`)
  assert.ok(Number(lag?.dropped) >= 100)
})

test('if a client never reads, the stream closes its connection after a while and still serves other clients', async (t) => {
  const stream = await startStream(t, { settings: { lagMsMax: 50, heartbeatMs: 160 } })
  const dead = new RawStreamClient(`${stream.url}/api/v1/stream`)
  t.after(() => dead.close())
  await eventually(() => assert.equal(dead.frames[0]?.type, 'hello'))
  dead.say(BOOK)
  await eventually(() => assert.ok(dead.frames.some(({ type }) => type === 'book.snapshot')))
  dead.pause()
  let poured = 0
  await eventually(() => {
    if (stream.hub.figures().closedLagging === 0) {
      pour(stream, 2_000, poured)
      poured += 2_000
    }
    assert.equal(stream.hub.figures().closedLagging, 1)
  })
  assert.equal(stream.hub.figures().connections, 0)
  assert.equal(stream.hub.figures().lagging, 0)
  await othersAreServed(stream)
})

test('the stream closes the connection of a client that keeps sending requests but reads nothing, with code 4008', async (t) => {
  const stream = await startStream(t)
  const slow = new RawStreamClient(`${stream.url}/api/v1/stream`)
  t.after(() => slow.close())
  await eventually(() => assert.equal(slow.frames[0]?.type, 'hello'))
  slow.say(BOOK)
  await eventually(() => assert.ok(slow.frames.some(({ type }) => type === 'book.snapshot')))
  slow.pause()
  let poured = 0
  await eventually(() => {
    pour(stream, 2_000, poured)
    poured += 2_000
    assert.equal(stream.hub.figures().lagging, 1)
  })
  // The answers to 9,000 requests exceed the socket buffers, even if the kernel enlarges them.
  for (let count = 0; count < 9_000; count++) slow.say({ op: 'ping' })
  for (let count = 0; count < 3; count++) await othersAreServed(stream)
  // Waits for many turns of the event loop, because each turn handles only some of the requests.
  for (let turn = 0; turn < 5_000; turn++) await new Promise(setImmediate)
  slow.resume()
  await eventually(() => assert.equal(slow.closeCode, 4008))
  await eventually(() => assert.equal(stream.hub.figures().connections, 0))
})

test('clients that disconnect silently leave no connection behind', async (t) => {
  const stream = await startStream(t, { settings: { heartbeatMs: 160, lingerMs: 1 } })
  for (let count = 0; count < 20; count++) {
    const client = new RawStreamClient(`${stream.url}/api/v1/stream`)
    if (count % 3 > 0) await eventually(() => assert.ok(client.frames.length > 0))
    client.say(BOOK)
    client.say({ op: 'subscribe', channel: 'orders', trader: `0x${'00'.repeat(20)}` })
    if (count % 3 === 1) await eventually(() => assert.ok(client.frames.length > 2))
    client.close()
  }
  await eventually(() => {
    const { connections, subscriptions, topics } = stream.hub.figures()
    assert.deepEqual([connections, subscriptions, topics], [0, 0, 0])
  })
})

test('each stream request uses rate-limit units of its IP address, and authentication costs as many as a write', async (t) => {
  const drawn: string[] = []
  let left = 7
  const draw = ({ cost }: { readonly cost: string }) => {
    drawn.push(cost)
    return { allowed: left-- > 0 }
  }
  const stream = await startStream(t, { parts: { draw } })
  const client = await stream.connect()
  client.say({ op: 'ping' })
  client.say({ op: 'auth', token: 'no.token' })
  client.say({ op: 'subscribe', channel: 'trades', marketId: marketIdOf(0) })
  client.say({ op: 'unsubscribe', sub: 'none' })
  client.say({ op: 'auth', token: 'no.token' })
  client.say({ op: 'ping' })
  await eventually(() => {
    // Each frame uses a unit of the read limit before it is parsed. An `auth` request also uses a unit of the write
    // limit.
    const last = ['read', 'write', 'read']
    assert.deepEqual(drawn, ['read', 'read', 'write', 'read', 'read', ...last])
    const limited = client.frames.filter(({ code }) => code === 'RATE_LIMITED')
    assert.equal(limited.length, 1)
  })
})
