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
 * Simulates a machine on which the thread runs. Returns the sender's end of the channel (`here`), the thread's end
 * (`there`), and the values that the thread received.
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

test('a request to a moving or unavailable thread waits and is sent to the thread that replaces it', async (t) => {
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

test('a request that its thread received but did not answer is not sent again', async (t) => {
  const ref = makePatientRef(makeRef<P>(), PATIENCE)
  t.after(() => ref.close())
  const first = place(t, () => undefined)
  ref.replace(first.here)
  const asked = ref.ask('Ask', { value: 1 })
  await new Promise((resolve) => first.here.flush() ?? setImmediate(resolve))
  first.there.close()
  assert.deepEqual(await asked, { unanswered: 'closed' })
})

test('a request to an unavailable thread gets the result “full” after its timeout or if too many wait', async (t) => {
  const ref = makePatientRef(makeRef<P>(), PATIENCE)
  t.after(() => ref.close())
  const waiting = [1, 2].map((value) => ref.ask('Ask', { value }, 40))
  assert.deepEqual(await ref.ask('Ask', { value: 3 }), { unanswered: 'full' })
  assert.deepEqual(await Promise.all(waiting), [{ unanswered: 'full' }, { unanswered: 'full' }])
})
