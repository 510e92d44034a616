/**
 * Tests the SDK's stream when the exchange refuses a request, or a connection breaks. The exchange is a script, and the
 * test controls the time.
 */

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createStream } from '#client/stream.ts'
import type { StreamOptions } from '#client/stream-types.ts'
import { bookFrame, type ScriptedSocket, type Sent, scriptedSockets } from './scripted-socket.ts'

const M = `0x${'1'.repeat(64)}`

/**
 * Time by which each call of `pass` advances the clock. It is longer than any pause before a retry, and shorter than
 * any timeout of the SDK.
 */
const PAUSE_MS = 1_000

function openStream(
  t: TestContext,
  answer?: (socket: ScriptedSocket, sent: Sent) => void,
  more: Partial<StreamOptions> = {},
) {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { WebSocket, sockets } = scriptedSockets(answer)
  const stream = createStream({ url: 'http://exchange', WebSocket, backoffMs: 100, ...more })
  t.after(() => stream.close())
  return { stream, sockets, pass: () => t.mock.timers.tick(PAUSE_MS) }
}

/** Sends hello, and lets the stream react. */
async function greet(socket: ScriptedSocket | undefined): Promise<void> {
  socket?.greet()
  await turn()
}

/** Lets the received messages take effect. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

test('the client retries a temporarily refused subscription only after the connection is open again', async (t) => {
  const { stream, sockets, pass } = openStream(t)
  stream.trades(M, () => undefined)
  await greet(sockets[0])
  sockets[0]!.refuse(sockets[0]!.asked('subscribe')[0], 'RATE_LIMITED')
  sockets[0]!.drop()
  pass()
  assert.equal(sockets.length, 2)
  assert.deepEqual(sockets[1]!.sent, [])
  await greet(sockets[1])
  assert.equal(sockets[1]!.asked('subscribe').length, 1)
})

/**
 * Makes an exchange that answers each book subscription with a snapshot at seq 1, and each snapshot request by
 * `answer`.
 */
function bookExchange(answer: (socket: ScriptedSocket, sent: Sent) => void) {
  return (socket: ScriptedSocket, sent: Sent): void => {
    if (sent.op === 'snapshot') answer(socket, sent)
    if (sent.op !== 'subscribe') return
    socket.say({ type: 'subscribed', id: sent.id, sub: 'b', seq: sent.since ?? 1 })
    if (sent.since === undefined) socket.say(bookFrame('b', 1))
  }
}

for (const code of ['RATE_LIMITED', 'OVERLOADED']) {
  test(`if the exchange refuses a snapshot after a gap with ${code}, the client asks again after a pause`, async (t) => {
    const exchange = bookExchange((socket, sent) => {
      if (socket.asked('snapshot').length < 3) socket.refuse(sent, code)
      else socket.say(bookFrame('b', 9))
    })
    const { stream, sockets, pass } = openStream(t, exchange)
    await greet(sockets[0])
    const { book, ready } = stream.book({ marketId: M, outcome: 'YES' })
    await ready
    sockets[0]!.say(bookFrame('b', 4, 3))
    pass()
    assert.equal(book.seq, 1)
    pass()
    assert.equal(book.seq, 9)
    sockets[0]!.say(bookFrame('b', 10, 9))
    assert.equal(book.seq, 10)
    pass()
    assert.equal(sockets[0]!.asked('snapshot').length, 3)
  })
}

test('if the exchange temporarily refuses a second subscription’s snapshot request, the client repeats the snapshot request', async (t) => {
  const exchange = bookExchange((socket, sent) => {
    if (socket.asked('snapshot').length === 1) socket.refuse(sent, 'RATE_LIMITED')
    else socket.say(bookFrame('b', 1))
  })
  const { stream, sockets, pass } = openStream(t, exchange)
  await greet(sockets[0])
  await stream.book({ marketId: M, outcome: 'YES' }).ready
  const { ready } = stream.book({ marketId: M, outcome: 'YES' })
  pass()
  assert.equal(sockets[0]!.asked('snapshot').length, 2)
  await ready
})

test('when an unrequested snapshot arrives, the client stops repeating its refused request for a snapshot', async (t) => {
  const exchange = bookExchange((socket, sent) => socket.refuse(sent, 'OVERLOADED'))
  const { stream, sockets, pass } = openStream(t, exchange)
  await greet(sockets[0])
  const { book, ready } = stream.book({ marketId: M, outcome: 'YES' })
  await ready
  sockets[0]!.say(bookFrame('b', 4, 3))
  sockets[0]!.say(bookFrame('b', 5))
  pass()
  assert.equal(book.seq, 5)
  assert.equal(sockets[0]!.asked('snapshot').length, 1)
})

test('if the exchange no longer knows a subscription, the client subscribes again from its last position', async (t) => {
  const exchange = bookExchange((socket, sent) => socket.refuse(sent, 'NOT_FOUND'))
  const { stream, sockets, pass } = openStream(t, exchange)
  await greet(sockets[0])
  const { book, ready } = stream.book({ marketId: M, outcome: 'YES' })
  await ready
  sockets[0]!.say(bookFrame('b', 4, 3))
  pass()
  assert.deepEqual(
    sockets[0]!.asked('subscribe').map(({ since }) => since),
    [undefined, 1],
  )
  sockets[0]!.say(bookFrame('b', 4, 1))
  assert.equal(book.seq, 4)
})

/**
 * Makes an exchange that answers the requests of a session. If `refusal` returns a code, the exchange refuses the
 * request with this code. Tokens are numbered.
 */
function sessionExchange(refusal: (socket: ScriptedSocket, sent: Sent) => string | undefined) {
  let tokens = 0
  return {
    headers: () => ({ authorization: `Bearer ${++tokens}` }),
    answer(socket: ScriptedSocket, sent: Sent): void {
      const code = refusal(socket, sent)
      if (code !== undefined) socket.refuse(sent, code)
      else if (sent.op === 'auth') socket.say({ type: 'authenticated', id: sent.id })
      else if (sent.op === 'cancel') socket.say({ type: 'cancelled', id: sent.id })
      else if (sent.op === 'cancelOnDisconnect') socket.say({ type: sent.op, id: sent.id })
    },
  }
}

const ORDER = { marketId: M, orderHash: M }

const opsOf = (socket: ScriptedSocket | undefined) => socket?.sent.map(({ op }) => op)

test('after a reconnect, the client authenticates, enables cancel-on-disconnect, and then renews its subscriptions', async (t) => {
  const { headers, answer } = sessionExchange(() => undefined)
  const { stream, sockets, pass } = openStream(t, answer, { headers })
  stream.trades(M, () => undefined)
  await greet(sockets[0])
  assert.deepEqual(opsOf(sockets[0]), ['auth', 'subscribe'])
  await stream.cancelOnDisconnect(true)
  sockets[0]!.drop()
  pass()
  const cancelled = stream.cancel(ORDER)
  await greet(sockets[1])
  await cancelled
  assert.deepEqual(opsOf(sockets[1]), ['auth', 'cancelOnDisconnect', 'subscribe', 'cancel'])
})

for (const op of ['auth', 'cancelOnDisconnect']) {
  test(`if the exchange temporarily refuses ${op} after a reconnect, the client repeats it before it sends orders`, async (t) => {
    const { headers, answer } = sessionExchange((socket, sent) =>
      sent.op === op && socket === sockets[1] && socket.asked(op).length < 3
        ? 'RATE_LIMITED'
        : undefined,
    )
    const { stream, sockets, pass } = openStream(t, answer, { headers })
    stream.trades(M, () => undefined)
    await greet(sockets[0])
    await stream.cancelOnDisconnect(true)
    sockets[0]!.drop()
    pass()
    await greet(sockets[1])
    const cancelled = stream.cancel(ORDER)
    pass()
    await turn()
    assert.deepEqual(
      [...new Set(opsOf(sockets[1]))],
      ['auth', 'cancelOnDisconnect'].slice(0, op === 'auth' ? 1 : 2),
    )
    pass()
    await cancelled
    assert.equal(sockets[1]!.asked(op).length, 3)
    assert.deepEqual(opsOf(sockets[1])?.slice(-3), ['cancelOnDisconnect', 'subscribe', 'cancel'])
    const tokens = sockets[1]!.asked('auth').map(({ token }) => token)
    assert.equal(new Set(tokens).size, tokens.length, 'a token serves once')
  })
}

test('if cancel-on-disconnect cannot be enabled after a reconnect, the stream receives messages but is not reported as open', async (t) => {
  const { headers, answer } = sessionExchange((socket, { op }) =>
    socket === sockets[1] && op === 'auth' ? 'UNAUTHORIZED_KEY_INACTIVE' : undefined,
  )
  const { stream, sockets, pass } = openStream(t, answer, { headers })
  const told: string[] = []
  stream.on('error', ({ code }) => told.push(code))
  stream.on('open', ({ session }) => told.push(session))
  stream.trades(M, () => undefined)
  await greet(sockets[0])
  await stream.cancelOnDisconnect(true)
  sockets[0]!.drop()
  pass()
  await greet(sockets[1])
  assert.deepEqual(opsOf(sockets[1]), ['auth', 'subscribe'])
  assert.deepEqual(told, ['s0', 'UNAUTHORIZED_KEY_INACTIVE'])
  const off = stream.cancelOnDisconnect(false)
  pass()
  await off
  await stream.cancel(ORDER)
  assert.equal(told.at(-1), 's1')
})

test('if a subscription or its stream is closed before the subscription is ready, the subscription fails with ABORTED', async (t) => {
  const { stream, sockets } = openStream(t)
  const early = stream.trades(M, () => undefined)
  await greet(sockets[0])
  const asked = stream.book({ marketId: M, outcome: 'YES' })
  const both = [1, 2].map(() => stream.orders(M, () => undefined))
  both[0]!.close()
  await assert.rejects(both[0]!.ready, { code: 'ABORTED', message: 'the subscription is closed' })
  stream.close()
  const late = stream.trades(M, () => undefined)
  for (const { ready } of [early, asked, both[1]!, late]) {
    await assert.rejects(ready, { code: 'ABORTED', message: 'the stream is closed' })
  }
  late.close()
})

test('the ready promise of a subscription stays resolved after the subscription is closed', async (t) => {
  const { stream, sockets } = openStream(
    t,
    bookExchange(() => undefined),
  )
  await greet(sockets[0])
  const { ready, close } = stream.book({ marketId: M, outcome: 'YES' })
  await ready
  close()
  stream.close()
  await ready
})
