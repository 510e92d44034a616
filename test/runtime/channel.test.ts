import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { MessageChannel, Worker } from 'node:worker_threads'
import { Channel, type ChannelOptions, type Form, isUnanswered } from '#runtime/channel.ts'

type Echo = { Echo: { takes: { n: number }; answers: { n: number } } }

const OPTIONS: ChannelOptions = { inFlightMax: 100, batchMax: 64, deadlineMs: 60_000 }

type Heard = { type: string; message: unknown; replyTo: number }

function pair(options: Partial<ChannelOptions> = {}) {
  const { port1, port2 } = new MessageChannel()
  const received: Heard[] = []
  let hear: (received: Heard) => void = () => {}
  let closed = 0
  const far = new Channel<Echo>(
    port2,
    { ...OPTIONS, ...options },
    {
      received(type, message, replyTo) {
        received.push({ type, message, replyTo })
        hear({ type, message, replyTo })
      },
    },
  )
  const near = new Channel<Echo>(
    port1,
    { ...OPTIONS, ...options },
    { received() {}, closed: () => closed++ },
  )
  return {
    near,
    far,
    received,
    onHeard: (listener: (received: Heard) => void) => {
      hear = listener
    },
    closedCount: () => closed,
  }
}

test('each request over a channel gets its own answer, even if answers arrive in another order', async () => {
  const { near, far, received, onHeard } = pair()
  onHeard(() => {
    if (received.length < 50) return
    for (const { message, replyTo } of received.toReversed()) far.reply(replyTo, message)
  })
  const answers = await Promise.all(Array.from({ length: 50 }, (_, n) => near.ask('Echo', { n })))
  assert.deepEqual(
    answers,
    Array.from({ length: 50 }, (_, n) => ({ n })),
  )
  assert.equal(near.inFlight, 0)
  near.close()
})

test('a channel sends all messages of one event-loop turn in batches of up to 64', async () => {
  const { port1, port2 } = new MessageChannel()
  const batches: number[] = []
  const all = new Promise<void>((resolve) => {
    port2.on('message', (batch: unknown[]) => {
      // A batch has three values per message, and three more: the totals of sent and received bytes, and the time.
      batches.push((batch.length - 3) / 3)
      if (batches.reduce((a, b) => a + b) === 150) resolve()
    })
  })
  const channel = new Channel<Echo>(port1, OPTIONS, { received() {} })
  for (let n = 0; n < 150; n++) channel.tell('Echo', { n })
  await all
  assert.deepEqual(batches, [64, 64, 22])
  channel.close()
})

test('a message that a peer sends before its answer also arrives before this answer', async () => {
  const { port1, port2 } = new MessageChannel()
  const order: string[] = []
  const near = new Channel<Echo>(port1, OPTIONS, { received: (type) => order.push(type) })
  const far = new Channel<Echo>(port2, OPTIONS, {
    received(_type, message, replyTo) {
      far.tell('Echo', { n: 1 })
      far.reply(replyTo, message)
    },
  })
  await near.ask('Echo', { n: 0 }).then(() => order.push('answer'))
  assert.deepEqual(order, ['Echo', 'answer'])
  near.close()
})

test('a request above the limit of requests in flight is not sent and gets the result “full”', async () => {
  const { near, received, far, onHeard } = pair({ inFlightMax: 2 })
  const first = near.ask('Echo', { n: 1 })
  const second = near.ask('Echo', { n: 2 })
  assert.deepEqual(await near.ask('Echo', { n: 3 }), { unanswered: 'full' })
  onHeard(() => {
    if (received.length === 2)
      for (const { message, replyTo } of received) far.reply(replyTo, message)
  })
  assert.deepEqual(await Promise.all([first, second]), [{ n: 1 }, { n: 2 }])
  assert.equal(received.length, 2)
  near.close()
})

test('an unanswered request gets “late” at its deadline, and its late answer never reaches another request', async () => {
  const { near, far, received, onHeard } = pair()
  const late = await near.ask('Echo', { n: 1 }, 30)
  assert.deepEqual(late, { unanswered: 'late' })
  assert.equal(near.inFlight, 0)
  onHeard(({ message, replyTo }) => {
    // The new request reuses the slot of the late request. The late answer must not become the answer to the new
    // request.
    far.reply(received[0]?.replyTo ?? 0, { n: 999 })
    far.reply(replyTo, message)
  })
  assert.deepEqual(await near.ask('Echo', { n: 2 }), { n: 2 })
  near.close()
})

test('when a channel closes, waiting and later requests get the result "closed", and the closing is reported once', async () => {
  const { near, far, closedCount } = pair()
  const waiting = near.ask('Echo', { n: 1 })
  far.close()
  assert.deepEqual(await waiting, { unanswered: 'closed' })
  assert.deepEqual(await near.ask('Echo', { n: 2 }), { unanswered: 'closed' })
  near.tell('Echo', { n: 3 })
  near.close()
  assert.equal(closedCount(), 1)
  assert.equal(near.isOpen, false)
})

test('if a thread exits, every pending request to that thread ends with the result “closed”', async () => {
  const source = `
    const { parentPort } = require('node:worker_threads')
    parentPort.once('message', (port) => port.on('message', () => {}))`
  const worker = new Worker(source, { eval: true })
  const { port1, port2 } = new MessageChannel()
  worker.postMessage(port2, [port2])
  const channel = new Channel<Echo>(port1, OPTIONS, { received() {} })
  const requests = Array.from({ length: 80 }, (_, n) => channel.ask('Echo', { n }))
  channel.flush()
  await once(worker, 'online')
  await worker.terminate()
  const answers = await Promise.all(requests)
  assert(answers.every((answer) => isUnanswered(answer) && answer.unanswered === 'closed'))
})

test('a batch of messages between threads can mix packed and unpacked messages', async () => {
  const number: Form<{ n: number }> = {
    cells: 2,
    write({ n }, into) {
      if (n % 3 === 0) return false
      into.push(n, -n)
      return true
    },
    read: (batch, at) => ({ n: batch[at] as number }),
  }
  const forms = {
    requests: [{ type: 'Echo', ...(number as Form<unknown>) }],
    answers: [number as Form<unknown>],
  }
  const { port1, port2 } = new MessageChannel()
  const sizes: number[] = []
  port1.on('message', (batch: unknown[]) => sizes.push(batch.length))
  const near = new Channel<Echo>(port1, { ...OPTIONS, forms }, { received() {} })
  const far = new Channel<Echo>(
    port2,
    { ...OPTIONS, forms },
    {
      received(type, message, replyTo) {
        assert.equal(type, 'Echo')
        far.reply(replyTo, { n: (message as { n: number }).n + 1 })
      },
    },
  )
  const answers = await Promise.all(Array.from({ length: 90 }, (_, n) => near.ask('Echo', { n })))
  assert.deepEqual(
    answers,
    Array.from({ length: 90 }, (_, n) => ({ n: n + 1 })),
  )
  // Every third request and every third answer has a packed form with four values. All others have three values.
  const cells = sizes.reduce((sum, size) => sum + size - 3, 0)
  assert.equal(cells, 30 * 4 + 60 * 3)
  near.close()
})

test('a caller that requests processing times receives them just before the answer; other callers receive none', async () => {
  const plain: Form<{ n: number }> = {
    cells: 1,
    write({ n }, into) {
      if (n % 2 === 0) return false
      into.push(n)
      return true
    },
    read: (batch, at) => ({ n: batch[at] as number }),
  }
  const forms = {
    requests: [{ type: 'Echo', ...(plain as Form<unknown>) }],
    answers: [plain as Form<unknown>],
  }
  const { port1, port2 } = new MessageChannel()
  const near = new Channel<Echo>(port1, { ...OPTIONS, forms }, { received() {} })
  const far = new Channel<Echo>(
    port2,
    { ...OPTIONS, forms },
    {
      received(_type, message, replyTo) {
        const { n } = message as { n: number }
        const begunMs = far.peerSentAtMs + 5
        const times = { begunMs, handledMs: begunMs + n, durableMs: begunMs + n + 2 }
        // Every fourth request is answered by a peer that measures no times.
        far.reply(replyTo, message, n % 4 === 3 ? undefined : times)
      },
    },
  )
  const story: unknown[] = []
  await Promise.all(
    Array.from({ length: 12 }, async (_, n) => {
      const timed = n % 3 === 0 ? undefined : (times: object) => story.push({ of: n, ...times })
      story.push(await near.ask('Echo', { n }, undefined, timed))
    }),
  )
  const expected = Array.from({ length: 12 }, (_, n) => n)
  for (const n of expected) {
    const told = story.filter((line) => (line as { of?: number }).of === n) as object[]
    const wanted = n % 3 !== 0 && n % 4 !== 3
    assert.equal(told.length, wanted ? 1 : 0, `request ${n}`)
    if (!wanted) continue
    const { queue, match, commit } = told[0] as Record<string, number>
    for (const [ms, exact] of [
      [queue, 5],
      [match, n],
      [commit, 2],
    ] as const) {
      assert(Math.abs((ms ?? Number.NaN) - exact) < 0.001, `${ms} is not ${exact}`)
    }
    const answered = story.findIndex((line) => (line as { n?: number }).n === n)
    assert(story.indexOf(told[0]) < answered)
  }
  const answers = story.flatMap((line) => (line as { n?: number }).n ?? [])
  assert.deepEqual(
    answers.toSorted((a, b) => a - b),
    expected,
  )
  near.close()
})

test('a peer that stops reading loses messages, learns of the loss, and then receives messages again', async () => {
  const { port1, port2 } = new MessageChannel()
  let dropped = 0
  const missed = Promise.withResolvers<void>()
  const options = { ...OPTIONS, untakenMax: 64_000 }
  const near = new Channel<Echo>(port1, options, {
    received: (_type, message, replyTo) => near.reply(replyTo, message),
    missed: () => missed.resolve(),
    dropped: () => dropped++,
  })
  // Nothing reads the other port yet, as if its event loop were blocked.
  for (let n = 0; n < 1_000; n++) near.tell('Echo', { n }, 1_000)
  assert(near.untaken <= 65_000, `${near.untaken}`)
  assert.equal(dropped, 1_000 - 64)
  assert.deepEqual(await near.ask('Echo', { n: 0 }), { unanswered: 'full' })
  const story: string[] = []
  const far = new Channel<Echo>(port2, options, {
    received: (_type, message) => story.push(String((message as { n: number }).n)),
    lost: () => story.push('lost'),
  })
  const answer = await far.ask('Echo', { n: 5 })
  assert.deepEqual(answer, { n: 5 })
  story.push('answered')
  await missed.promise
  near.tell('Echo', { n: 1_000 })
  const told = far.ask('Echo', { n: 6 })
  assert.deepEqual(await told, { n: 6 })
  assert.deepEqual(story.slice(62), ['62', '63', 'lost', 'answered', '1000'])
  near.close()
})

test('a peer that keeps reading loses no message, even if one is large', async () => {
  const { near, received } = pair({ untakenMax: 10_000 })
  const last = 2_000
  for (let n = 0; n <= last; n++) {
    near.tell('Echo', { n }, n === 7 ? 1_000_000 : 2_000)
    await new Promise(setImmediate)
    while (near.untaken > 1_250) await new Promise(setImmediate)
  }
  near.tell('Echo', { n: last })
  while (received.length < last + 2) await new Promise(setImmediate)
  near.close()
})
