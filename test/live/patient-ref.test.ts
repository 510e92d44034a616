import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { MessageChannel } from 'node:worker_threads'
import { makePatientRef } from '#live/patient-ref.ts'
import { Channel } from '#runtime/channel.ts'
import { makeRef } from '#runtime/ref.ts'

type P = { Ask: { takes: { value: number }; answers: { value: number } } }

const OPTIONS = { inFlightMax: 100, batchMax: 10, deadlineMs: 60_000 }
const PATIENCE = { waitingMax: 2, deadlineMs: 60_000 }
const MOVED = { unanswered: 'moved' }

/**
 * Simulates a place where the thread runs. Returns both ends of the channel to the thread, and the messages that
 * arrived there.
 */
function place(t: TestContext, answer: (value: number) => unknown) {
  const { port1, port2 } = new MessageChannel()
  const received: number[] = []
  const there: Channel<P> = new Channel<P>(port2, OPTIONS, {
    received(_type, message, replyTo) {
      const { value } = message as { value: number }
      received.push(value)
      const said = answer(value)
      if (said !== undefined) there.reply(replyTo, said)
    },
  })
  t.after(() => there.close())
  return { here: new Channel<P>(port1, OPTIONS, { received() {} }), there, received }
}

test('a request waits while its thread is unavailable, and is retried if the thread did not accept the request', async (t) => {
  const ref = makePatientRef(makeRef<P>(), PATIENCE)
  t.after(() => ref.close())
  const early = ref.ask('Ask', { value: 1 })
  const first = place(t, (value) => (value < 3 ? { value } : MOVED))
  ref.replace(first.here)
  assert.deepEqual(await early, { value: 1 })
  assert.deepEqual(await ref.ask('Ask', { value: 2 }), { value: 2 })
  const moved = ref.ask('Ask', { value: 3 })
  // This answer shows that all earlier messages have arrived.
  await first.here.ask('Ask', { value: 2 })
  const second = place(t, (value) => ({ value: -value }))
  const held = ref.ask('Ask', { value: 4 })
  ref.replace(second.here)
  assert.deepEqual(await Promise.all([moved, held]), [{ value: -3 }, { value: -4 }])
  // After the thread has announced its move, nothing more is sent to it.
  assert.deepEqual(first.received, [1, 2, 3, 2])
  ref.moves()
  const third = place(t, (value) => ({ value }))
  const last = ref.ask('Ask', { value: 5 })
  ref.replace(third.here)
  assert.deepEqual(await last, { value: 5 })
  assert.deepEqual(second.received.sort(), [3, 4])
})

test('a request that was sent but not answered is not retried', async (t) => {
  const ref = makePatientRef(makeRef<P>(), PATIENCE)
  t.after(() => ref.close())
  const first = place(t, () => undefined)
  ref.replace(first.here)
  const asked = ref.ask('Ask', { value: 1 })
  await new Promise((resolve) => first.here.flush() ?? setImmediate(resolve))
  first.there.close()
  assert.deepEqual(await asked, { unanswered: 'closed' })
})

test('a request that waits too long for an unavailable thread, or exceeds the limit of waiting requests, gets the result "full"', async (t) => {
  const ref = makePatientRef(makeRef<P>(), PATIENCE)
  t.after(() => ref.close())
  const waiting = [1, 2].map((value) => ref.ask('Ask', { value }, 40))
  assert.deepEqual(await ref.ask('Ask', { value: 3 }), { unanswered: 'full' })
  assert.deepEqual(await Promise.all(waiting), [{ unanswered: 'full' }, { unanswered: 'full' }])
})
