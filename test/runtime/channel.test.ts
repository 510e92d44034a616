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
  const heard: Heard[] = []
  let hear: (heard: Heard) => void = () => {}
  let closed = 0
  const far = new Channel<Echo>(
    port2,
    { ...OPTIONS, ...options },
    {
      heard(type, message, replyTo) {
        heard.push({ type, message, replyTo })
        hear({ type, message, replyTo })
      },
    },
  )
  const near = new Channel<Echo>(
    port1,
    { ...OPTIONS, ...options },
    { heard() {}, closed: () => closed++ },
  )
  return {
    near,
    far,
    heard,
    onHeard: (listener: (heard: Heard) => void) => {
      hear = listener
    },
    closedCount: () => closed,
  }
}

test('each request gets its own answer, in whichever order they are answered', async () => {
  const { near, far, heard, onHeard } = pair()
  onHeard(() => {
    if (heard.length < 50) return
    for (const { message, replyTo } of heard.toReversed()) far.reply(replyTo, message)
  })
  const answers = await Promise.all(Array.from({ length: 50 }, (_, n) => near.ask('Echo', { n })))
  assert.deepEqual(
    answers,
    Array.from({ length: 50 }, (_, n) => ({ n })),
  )
  assert.equal(near.inFlight, 0)
  near.close()
})

test('messages of one turn are sent in one batch, and more than a batch in several', async () => {
  const { port1, port2 } = new MessageChannel()
  const batches: number[] = []
  const all = new Promise<void>((resolve) => {
    port2.on('message', (batch: unknown[]) => {
      // Three for each message; and the totals of sent and taken bytes, and the time.
      batches.push((batch.length - 3) / 3)
      if (batches.reduce((a, b) => a + b) === 150) resolve()
    })
  })
  const channel = new Channel<Echo>(port1, OPTIONS, { heard() {} })
  for (let n = 0; n < 150; n++) channel.tell('Echo', { n })
  await all
  assert.deepEqual(batches, [64, 64, 22])
  channel.close()
})

test('a message sent before an answer arrives before it', async () => {
  const { port1, port2 } = new MessageChannel()
  const order: string[] = []
  const near = new Channel<Echo>(port1, OPTIONS, { heard: (type) => order.push(type) })
  const far = new Channel<Echo>(port2, OPTIONS, {
    heard(_type, message, replyTo) {
      far.tell('Echo', { n: 1 })
      far.reply(replyTo, message)
    },
  })
  await near.ask('Echo', { n: 0 }).then(() => order.push('answer'))
  assert.deepEqual(order, ['Echo', 'answer'])
  near.close()
})

test('a request above the limit is answered as full at once and never sent', async () => {
  const { near, heard, far, onHeard } = pair({ inFlightMax: 2 })
  const first = near.ask('Echo', { n: 1 })
  const second = near.ask('Echo', { n: 2 })
  assert.deepEqual(await near.ask('Echo', { n: 3 }), { unanswered: 'full' })
  onHeard(() => {
    if (heard.length === 2) for (const { message, replyTo } of heard) far.reply(replyTo, message)
  })
  assert.deepEqual(await Promise.all([first, second]), [{ n: 1 }, { n: 2 }])
  assert.equal(heard.length, 2)
  near.close()
})

test('a request without an answer before its deadline is late, and a later answer is ignored', async () => {
  const { near, far, heard, onHeard } = pair()
  const late = await near.ask('Echo', { n: 1 }, 30)
  assert.deepEqual(late, { unanswered: 'late' })
  assert.equal(near.inFlight, 0)
  onHeard(({ message, replyTo }) => {
    // The slot of the late request is in use again; only the new request may be answered.
    far.reply(heard[0]?.replyTo ?? 0, { n: 999 })
    far.reply(replyTo, message)
  })
  assert.deepEqual(await near.ask('Echo', { n: 2 }), { n: 2 })
  near.close()
})

test('a closed channel answers waiting and later requests, and reports it once', async () => {
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

test('a thread that is ended leaves no request without an answer', async () => {
  const source = `
    const { parentPort } = require('node:worker_threads')
    parentPort.once('message', (port) => port.on('message', () => {}))`
  const worker = new Worker(source, { eval: true })
  const { port1, port2 } = new MessageChannel()
  worker.postMessage(port2, [port2])
  const channel = new Channel<Echo>(port1, OPTIONS, { heard() {} })
  const requests = Array.from({ length: 80 }, (_, n) => channel.ask('Echo', { n }))
  channel.flush()
  await once(worker, 'online')
  await worker.terminate()
  const answers = await Promise.all(requests)
  assert(answers.every((answer) => isUnanswered(answer) && answer.unanswered === 'closed'))
})

test('packed and unpacked messages share a batch', async () => {
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
  const near = new Channel<Echo>(port1, { ...OPTIONS, forms }, { heard() {} })
  const far = new Channel<Echo>(
    port2,
    { ...OPTIONS, forms },
    {
      heard(type, message, replyTo) {
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
  // Every third request took its form and so did its answer: four cells instead of three.
  const cells = sizes.reduce((sum, size) => sum + size - 3, 0)
  assert.equal(cells, 30 * 4 + 60 * 3)
  near.close()
})

test('a caller that requests times gets them before its answer; others do not', async () => {
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
  const near = new Channel<Echo>(port1, { ...OPTIONS, forms }, { heard() {} })
  const far = new Channel<Echo>(
    port2,
    { ...OPTIONS, forms },
    {
      heard(_type, message, replyTo) {
        const { n } = message as { n: number }
        const begunMs = far.heardSentAtMs + 5
        const times = { begunMs, handledMs: begunMs + n, durableMs: begunMs + n + 2 }
        // Every fourth is answered by a peer that takes no times.
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

test('a peer that does not read loses messages, learns it before any answer, and then receives again', async () => {
  const { port1, port2 } = new MessageChannel()
  let dropped = 0
  const missed = Promise.withResolvers<void>()
  const options = { ...OPTIONS, untakenMax: 64_000 }
  const near = new Channel<Echo>(port1, options, {
    heard: (_type, message, replyTo) => near.reply(replyTo, message),
    missed: () => missed.resolve(),
    dropped: () => dropped++,
  })
  // Nothing reads the other port yet, as when its event loop does not turn.
  for (let n = 0; n < 1_000; n++) near.tell('Echo', { n }, 1_000)
  assert(near.untaken <= 65_000, `${near.untaken}`)
  assert.equal(dropped, 1_000 - 64)
  assert.deepEqual(await near.ask('Echo', { n: 0 }), { unanswered: 'full' })
  const story: string[] = []
  const far = new Channel<Echo>(port2, options, {
    heard: (_type, message) => story.push(String((message as { n: number }).n)),
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

test('a peer that reads receives everything, in any amount, and one message may be large', async () => {
  const { near, heard } = pair({ untakenMax: 10_000 })
  const last = 2_000
  for (let n = 0; n <= last; n++) {
    near.tell('Echo', { n }, n === 7 ? 1_000_000 : 2_000)
    await new Promise(setImmediate)
    while (near.untaken > 1_250) await new Promise(setImmediate)
  }
  near.tell('Echo', { n: last })
  while (heard.length < last + 2) await new Promise(setImmediate)
  near.close()
})
