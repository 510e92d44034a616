import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Behaviour, Deferred } from '#runtime/actor.ts'
import type { BatchTimes } from '#runtime/channel.ts'
import { type ServeOptions, serve } from '#runtime/serve.ts'
import { simulatedClock } from '../support/simulated-clock.ts'

type CounterProtocol = {
  Add: { takes: { amount: number }; answers: { total: number } }
  AddLater: { takes: { amount: Promise<number> }; answers: { total: number } | { failed: string } }
  Arrived: { takes: { amount: number; ticket: Deferred }; answers: undefined }
  Failed: { takes: { why: string; ticket: Deferred }; answers: undefined }
  AddAfter: { takes: { amount: number; delayMs: number }; answers: undefined }
  WhatTime: { takes: object; answers: { nowMs: number } }
}
type Added = { type: 'Added'; amount: number }
type Counter = { total: number }

const counter: Behaviour<Counter, CounterProtocol, Added> = {
  Add(state, { amount }, context) {
    state.total += amount
    context.emit({ type: 'Added', amount })
    return { total: state.total }
  },
  AddLater(_state, { amount }, context) {
    const ticket = context.defer()
    context.pipe(
      amount,
      (value) => ({ type: 'Arrived', message: { amount: value, ticket } }),
      (reason) => ({ type: 'Failed', message: { why: String(reason), ticket } }),
    )
    return ticket
  },
  Arrived(state, { amount, ticket }, context) {
    state.total += amount
    context.emit({ type: 'Added', amount })
    context.answer(ticket, { total: state.total })
    return undefined
  },
  Failed(_state, { why, ticket }, context) {
    context.answer(ticket, { failed: why })
    return undefined
  },
  AddAfter(_state, { amount, delayMs }, context) {
    context.after(delayMs, { type: 'Add', message: { amount } })
    return undefined
  },
  WhatTime: (_state, _message, context) => ({ nowMs: context.nowMs }),
}

function served(options: Partial<ServeOptions<Counter, CounterProtocol, Added>> = {}) {
  const state: Counter = { total: 0 }
  const story: unknown[] = []
  const clock = simulatedClock(1_000)
  let waiting = new Map<number, (answer: unknown) => void>()
  const timesOf = new Map<unknown, BatchTimes | undefined>()
  const channel = {
    reply(replyTo: number, answer: unknown, times?: BatchTimes) {
      story.push({ answered: answer })
      timesOf.set(answer, times)
      waiting.get(replyTo)?.(answer)
    },
  }
  const actor = serve<Counter, CounterProtocol, Added>({
    behaviour: counter,
    select: () => ({ state }),
    clock,
    mailboxMax: 10,
    batchMax: 4,
    full: { full: true },
    commit: (events) => void story.push({ committed: events.length }),
    say: (events) => void story.push({ said: events.length }),
    ...options,
  })
  let next = 1
  const ask = (type: keyof CounterProtocol, message: unknown): Promise<unknown> =>
    new Promise((resolve) => {
      waiting = waiting.set(next, resolve)
      actor.hear(type, message, next++, channel)
    })
  return { actor, state, story, clock, ask, timesOf }
}

test('an actor first commits a batch, then publishes its events, then answers in order of arrival', async () => {
  const { ask, story } = served()
  await Promise.all([1, 2, 3].map((amount) => ask('Add', { amount })))
  assert.deepEqual(story, [
    { committed: 3 },
    { said: 3 },
    { answered: { total: 1 } },
    { answered: { total: 3 } },
    { answered: { total: 6 } },
  ])
})

test('when a batch has reached the maximum number of events, an actor handles later commands in another batch', async () => {
  const observed: number[] = []
  const { ask, story } = served({
    eventsMax: 2,
    observe: (batch) => void observed.push(batch.length),
  })
  const amounts = [1, 2, 3, 4, 5]
  const answers = await Promise.all(amounts.map((amount) => ask('Add', { amount })))
  assert.deepEqual(
    answers,
    [1, 3, 6, 10, 15].map((total) => ({ total })),
  )
  const commits = story.filter((each) => 'committed' in (each as object))
  assert.deepEqual(commits, [{ committed: 2 }, { committed: 2 }, { committed: 1 }])
  assert.deepEqual(observed, [2, 2, 1])
})

test('commands that arrive during a commit of an actor share the next commit', async () => {
  let release: () => void = () => {}
  const commits: number[] = []
  const { ask, actor } = served({
    commit: (events) => {
      commits.push(events.length)
      return new Promise<void>((resolve) => {
        release = resolve
      })
    },
  })
  const first = ask('Add', { amount: 1 })
  while (commits.length === 0) await new Promise(setImmediate)
  const others = [2, 3, 4].map((amount) => ask('Add', { amount }))
  assert.equal(actor.waiting, 3)
  release()
  await first
  while (commits.length === 1) await new Promise(setImmediate)
  release()
  assert.deepEqual(await Promise.all(others), [{ total: 3 }, { total: 6 }, { total: 10 }])
  assert.deepEqual(commits, [1, 3])
})

test('a full mailbox of an actor refuses new messages immediately and keeps the messages it contains', async () => {
  const { ask, state } = served()
  const answers = await Promise.all(Array.from({ length: 12 }, () => ask('Add', { amount: 1 })))
  assert.equal(answers.filter((answer) => JSON.stringify(answer) === '{"full":true}').length, 2)
  assert.equal(state.total, 10)
})

test('if an actor’s commit fails, the recover function answers the commands of the batch, and no event is published', async () => {
  const { ask, story } = served({
    commit: () => {
      throw new Error('the disk is full')
    },
    recover: (error) => ({ unknown: (error as Error).message }),
  })
  const answers = await Promise.all([1, 2].map((amount) => ask('Add', { amount })))
  assert.deepEqual(answers, [{ unknown: 'the disk is full' }, { unknown: 'the disk is full' }])
  assert(!story.some((entry) => 'said' in (entry as object)))
})

test('an actor gets the result of asynchronous work as a message, and then answers the waiting request', async () => {
  const { ask, actor, state } = served()
  assert.deepEqual(await ask('AddLater', { amount: Promise.resolve(5) }), { total: 5 })
  const away = Promise.reject(new Error('away'))
  away.catch(() => {})
  assert.deepEqual(await ask('AddLater', { amount: away }), { failed: 'Error: away' })
  await actor.drained()
  assert.equal(state.total, 5)
})

test('an actor’s “drained” promise resolves only after its asynchronous work has ended', async () => {
  const { ask, actor, state } = served()
  let finish: (amount: number) => void = () => {}
  const work = ask('AddLater', {
    amount: new Promise<number>((resolve) => {
      finish = resolve
    }),
  })
  let drained = false
  const drain = actor.drained().then(() => {
    drained = true
  })
  for (let i = 0; i < 5; i++) await new Promise(setImmediate)
  assert.equal(drained, false)
  finish(7)
  await drain
  await work
  assert.equal(state.total, 7)
})

test('a timer of an actor sends its message to the actor', async () => {
  const { ask, clock, state, actor } = served()
  await ask('AddAfter', { amount: 3, delayMs: 50 })
  clock.advance(49)
  await actor.drained()
  assert.equal(state.total, 0)
  clock.advance(1)
  await actor.drained()
  assert.equal(state.total, 3)
})

test('the time that an actor sees never goes back', async () => {
  let nowMs = 1_000
  const clock = { nowMs: () => nowMs, after: () => () => {} }
  const { ask } = served({ clock })
  assert.deepEqual(await ask('WhatTime', {}), { nowMs: 1_000 })
  nowMs = 400
  assert.deepEqual(await ask('WhatTime', {}), { nowMs: 1_000 })
  nowMs = 1_001
  assert.deepEqual(await ask('WhatTime', {}), { nowMs: 1_001 })
})

test('if the select function finds no actor for a command, the caller gets the function’s answer', async () => {
  const { ask } = served({ select: () => ({ answer: { nobody: true } }) })
  assert.deepEqual(await ask('Add', { amount: 1 }), { nobody: true })
})

test('if the arrange function reorders a batch, each caller still gets its own answer', async () => {
  const { ask, story } = served({ arrange: (batch) => batch.toReversed() })
  const answers = await Promise.all([1, 2, 3].map((amount) => ask('Add', { amount })))
  assert.deepEqual(answers, [{ total: 6 }, { total: 5 }, { total: 3 }])
  assert.deepEqual(story.slice(0, 2), [{ committed: 3 }, { said: 3 }])
})

test('an actor attaches the processing times of a batch to its answers and reports them as metrics', async () => {
  const observed: [number, BatchTimes][] = []
  const { ask, timesOf } = served({
    observe: (batch, times) => {
      observed.push([batch.length, times])
      const { begunMs, handledMs, durableMs } = times
      assert(begunMs <= handledMs && handledMs <= durableMs)
    },
  })
  const answers = await Promise.all([ask('Add', { amount: 1 }), ask('Add', { amount: 2 })])
  assert.deepEqual(answers, [{ total: 1 }, { total: 3 }])
  assert.equal(observed.length, 1)
  const [[commands, times] = assert.fail()] = observed
  assert.equal(commands, 2)
  for (const answer of answers) assert.equal(timesOf.get(answer), times)
  const unobserved = served()
  const answer = await unobserved.ask('Add', { amount: 1 })
  assert.deepEqual([...unobserved.timesOf], [[answer, undefined]])
})

test('an actor answers reads only after its ownership is confirmed, and writes only after their commit', async () => {
  const confirming: ((isConfirmed: boolean) => void)[] = []
  const { ask, story } = served({
    confirm: () => new Promise((resolve) => confirming.push(resolve)),
    unconfirmed: { unsure: true },
  })
  assert.deepEqual(await ask('Add', { amount: 1 }), { total: 1 })
  assert.equal(confirming.length, 0)
  story.length = 0
  const read = ask('WhatTime', {})
  const mixed = ask('Add', { amount: 1 })
  await new Promise((resolve) => setImmediate(resolve))
  assert.deepEqual(story, [{ committed: 1 }], 'nothing was answered yet')
  confirming.shift()?.(false)
  assert.deepEqual(await read, { unsure: true })
  assert.deepEqual(await mixed, { total: 2 })
  const again = ask('WhatTime', {})
  await new Promise((resolve) => setImmediate(resolve))
  confirming.shift()?.(true)
  assert.deepEqual(await again, { nowMs: 1_000 })
})
