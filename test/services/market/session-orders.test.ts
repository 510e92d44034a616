import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MessageChannel, Worker } from 'node:worker_threads'
import { BUY } from '#domain/order.ts'
import { Channel } from '#runtime/channel.ts'
import { type HeldOrder, SessionIndex } from '#services/market/held.ts'
import { makeSessionOrders } from '#services/market/thread/session-orders.ts'
import { eventually } from '../../support/eventually.ts'
import { hashNamed, nameOf, traderNamed } from '../../support/orders.ts'
import { MARKET_ID } from './market-fixture.ts'

/** Makes the sessions of a market thread, with markets that cancel at once. */
function fixture() {
  const index = new SessionIndex()
  const cancelled: string[] = []
  const kept: string[] = []
  let nowMs = 0
  const sessions = makeSessionOrders(
    index,
    { log: { warn() {} } as never, monotonicMs: () => nowMs },
    {
      hear(type, message, _replyTo, channel) {
        const { orderHash } = message as HeldOrder
        ;(type === 'CancelOrder' ? cancelled : kept).push(nameOf(orderHash))
        for (const session of index.sessions()) index.delete(session, orderHash)
        channel?.reply(1, { status: 'cancelled' })
      },
    },
  )
  return {
    sessions,
    cancelled,
    kept,
    hold(session: string, name: string) {
      const trader = traderNamed('ann')
      index.add(session, { marketId: MARKET_ID, orderHash: hashNamed(name), side: BUY, trader })
    },
    look(afterMs: number) {
      nowMs += afterMs
      sessions.look()
    },
  }
}

test('the loss of a front ends the sessions of that front, and no sessions of other fronts', () => {
  const { sessions, cancelled, hold } = fixture()
  const [one, other] = [sessions.link(), sessions.link()]
  one.placed('s', hashNamed('a'))
  hold('s', 'a')
  other.placed('t', hashNamed('b'))
  hold('t', 'b')
  one.unlink(true)
  assert.deepEqual(cancelled, ['a'])
  other.unlink(false)
  assert.deepEqual(cancelled, ['a'], 'this thread stops; the front lives')
})

test('the loss of a front does not affect sessions that ended earlier or chose to keep their orders', () => {
  const { sessions, cancelled, kept, hold } = fixture()
  const front = sessions.link()
  const answers: unknown[] = []
  const reply = (answer: unknown) => void answers.push(answer)
  for (const session of ['s', 't']) {
    front.placed(session, hashNamed(session))
    hold(session, session)
  }
  front.handlers.EndSession({ session: 's' }, reply)
  front.handlers.KeepSession({ session: 't' }, reply)
  assert.deepEqual([cancelled, kept], [['s'], ['t']])
  assert.deepEqual(answers, [{ ended: true }, { kept: true }])
  front.unlink(true)
  assert.deepEqual([cancelled, kept], [['s'], ['t']])
})

test('after a restart, a market thread cancels the orders of sessions that no front claims in time', () => {
  const { sessions, cancelled, hold, look } = fixture()
  for (const session of ['claimed', 'left']) hold(session, session)
  sessions.awaitClaims()
  const front = sessions.link()
  front.handlers.ClaimSessions({ sessions: ['claimed', 'another'] }, () => {})
  look(4_999)
  assert.deepEqual(cancelled, [])
  look(1)
  assert.deepEqual(cancelled, ['left'])
  look(60_000)
  assert.deepEqual(cancelled, ['left'])
  front.unlink(true)
  assert.deepEqual(cancelled, ['left', 'claimed'])
})

test('an order that was in flight when its front died is cancelled when it reaches the market', () => {
  const { sessions, cancelled, hold, look } = fixture()
  const front = sessions.link()
  front.placed('s', hashNamed('a'))
  front.unlink(true)
  hold('s', 'a')
  look(1_000)
  assert.deepEqual(cancelled, ['a'])
})

test('when the thread of a front dies, the sessions of that front end', async () => {
  const { sessions, cancelled, hold } = fixture()
  const { port1, port2 } = new MessageChannel()
  const front = sessions.link()
  let claimed = false
  const options = { inFlightMax: 10, batchMax: 10, deadlineMs: 120_000 }
  new Channel(port1, options, {
    received(_type, message) {
      front.handlers.ClaimSessions(message as { sessions: string[] }, () => {
        claimed = true
      })
    },
    closed: () => front.unlink(true),
  })
  const worker = new Worker(
    `const { workerData } = require('node:worker_threads')
    const { port } = workerData
    port.postMessage(['ClaimSessions', 0, { sessions: ['s'] }, 0])
    port.on('message', () => undefined)`,
    { eval: true, workerData: { port: port2 }, transferList: [port2] },
  )
  hold('s', 'a')
  await eventually(() => assert(claimed))
  assert.deepEqual(cancelled, [])
  await worker.terminate()
  await eventually(() => assert.deepEqual(cancelled, ['a']))
})
