/**
 * What the SDK's stream does when the exchange refuses something, or a connection breaks in between. The exchange is a
 * script and time is the test's.
 */

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createStream } from '#client/stream.ts'
import type { StreamOptions } from '#client/stream-types.ts'
import { type ScriptedSocket, type Sent, scriptedSockets } from './scripted-socket.ts'

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
