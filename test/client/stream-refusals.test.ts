/**
 * What the SDK's stream does when the exchange refuses something, or a connection breaks in between. The exchange is a
 * script and time is the test's.
 */

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createStream } from '#client/stream.ts'
import type { StreamOptions } from '#client/stream-types.ts'
import { bookFrame, type ScriptedSocket, type Sent, scriptedSockets } from './scripted-socket.ts'

const M = `0x${'1'.repeat(64)}`

/** More than any pause before something is asked for again, less than any timeout. */
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

test('a subscription that was refused for now waits for a connection that is not open yet', async (t) => {
  const { stream, sockets, pass } = openStream(t)
  stream.trades(M, () => undefined)
  sockets[0]!.greet()
  sockets[0]!.refuse(sockets[0]!.asked('subscribe')[0], 'RATE_LIMITED')
  sockets[0]!.drop()
  pass()
  assert.equal(sockets.length, 2)
  assert.deepEqual(sockets[1]!.sent, [])
  sockets[1]!.greet()
  assert.equal(sockets[1]!.asked('subscribe').length, 1)
})

/** Answers each subscribe to a book with a snapshot at 1, and each request for a snapshot as `answer` does. */
function bookExchange(answer: (socket: ScriptedSocket, sent: Sent) => void) {
  return (socket: ScriptedSocket, sent: Sent): void => {
    if (sent.op === 'snapshot') answer(socket, sent)
    if (sent.op !== 'subscribe') return
    socket.say({ type: 'subscribed', id: sent.id, sub: 'b', seq: sent.since ?? 1 })
    if (sent.since === undefined) socket.say(bookFrame('b', 1))
  }
}

for (const code of ['RATE_LIMITED', 'OVERLOADED']) {
  test(`a gap whose repair is refused as ${code} is repaired after a pause`, async (t) => {
    const exchange = bookExchange((socket, sent) => {
      if (socket.asked('snapshot').length < 3) socket.refuse(sent, code)
      else socket.say(bookFrame('b', 9))
    })
    const { stream, sockets, pass } = openStream(t, exchange)
    sockets[0]!.greet()
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

test('who comes later is served although the snapshot was refused for now', async (t) => {
  const exchange = bookExchange((socket, sent) => {
    if (socket.asked('snapshot').length === 1) socket.refuse(sent, 'RATE_LIMITED')
    else socket.say(bookFrame('b', 1))
  })
  const { stream, sockets, pass } = openStream(t, exchange)
  sockets[0]!.greet()
  await stream.book({ marketId: M, outcome: 'YES' }).ready
  const { ready } = stream.book({ marketId: M, outcome: 'YES' })
  pass()
  assert.equal(sockets[0]!.asked('snapshot').length, 2)
  await ready
})

test('a snapshot that came by itself is not asked for again', async (t) => {
  const exchange = bookExchange((socket, sent) => socket.refuse(sent, 'OVERLOADED'))
  const { stream, sockets, pass } = openStream(t, exchange)
  sockets[0]!.greet()
  const { book, ready } = stream.book({ marketId: M, outcome: 'YES' })
  await ready
  sockets[0]!.say(bookFrame('b', 4, 3))
  sockets[0]!.say(bookFrame('b', 5))
  pass()
  assert.equal(book.seq, 5)
  assert.equal(sockets[0]!.asked('snapshot').length, 1)
})

test('a repair of what the exchange does not know any more is a new subscription from where it was', async (t) => {
  const exchange = bookExchange((socket, sent) => socket.refuse(sent, 'NOT_FOUND'))
  const { stream, sockets, pass } = openStream(t, exchange)
  sockets[0]!.greet()
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
