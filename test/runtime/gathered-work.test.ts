import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gatherWork } from '#runtime/gathered-work.ts'
import { PoolFull } from '#runtime/pool.ts'

type Sent = {
  readonly tasks: readonly number[]
  readonly done: (count?: number) => void
  readonly fail: (error: Error) => void
}

/**
 * Makes a `gatherWork` whose batches are finished or failed by the test. A task is a number, and its result is the
 * square of the number.
 */
function gathering(
  bounds: { underWayMax?: number; togetherMax?: number; waitingMax?: number } = {},
) {
  const sent: Sent[] = []
  const ask = gatherWork<number, number>({
    run(tasks) {
      const { promise, resolve, reject } = Promise.withResolvers<number[]>()
      const done = (count = tasks.length) => resolve(tasks.slice(0, count).map((n) => n * n))
      sent.push({ tasks, done, fail: reject })
      return promise
    },
    ...{ underWayMax: 1, togetherMax: 3, waitingMax: 5, ...bounds },
  })
  return { sent, ask, tasks: () => sent.map(({ tasks }) => tasks) }
}

test('the first task is sent at once; tasks that arrive meanwhile are sent in batches, in order', async () => {
  const { sent, ask, tasks } = gathering()
  const results = [1, 2, 3, 4, 5].map(ask)
  assert.deepEqual(tasks(), [[1]])
  sent[0]?.done()
  assert.equal(await results[0], 1)
  assert.deepEqual(tasks(), [[1], [2, 3, 4]])
  sent[1]?.done()
  assert.equal(await results[3], 16)
  assert.deepEqual(tasks().at(-1), [5])
  sent[2]?.done()
  assert.deepEqual(await Promise.all(results), [1, 4, 9, 16, 25])
})

test('tasks that a batch did not complete are sent again before later tasks', async () => {
  const { sent, ask, tasks } = gathering()
  const results = [1, 2, 3, 4, 5].map(ask)
  sent[0]?.done()
  await results[0]
  sent[1]?.done(1)
  await results[1]
  assert.deepEqual(tasks().at(-1), [3, 4, 5])
  sent[2]?.done()
  assert.deepEqual(await Promise.all(results), [1, 4, 9, 16, 25])
})

test('the tasks in flight and the waiting tasks stay within their limits', async () => {
  const { sent, ask, tasks } = gathering({ underWayMax: 2, waitingMax: 2 })
  const results = [1, 2, 3, 4].map(ask)
  assert.deepEqual(tasks(), [[1], [2]])
  await assert.rejects(ask(5), PoolFull)
  sent[1]?.done()
  await results[1]
  assert.deepEqual(tasks(), [[1], [2], [3, 4]])
  const last = ask(6)
  sent[0]?.done()
  await results[0]
  assert.deepEqual(tasks().at(-1), [6])
  for (const { done } of sent) done()
  assert.deepEqual(await Promise.all([...results, last]), [1, 4, 9, 16, 36])
})

test('if the waiting queue has size zero, a task is still accepted when it can start at once', async () => {
  const { sent, ask } = gathering({ waitingMax: 0 })
  const first = ask(3)
  await assert.rejects(ask(4), PoolFull)
  sent[0]?.done()
  assert.equal(await first, 9)
})

test('if a batch of tasks fails, only the callers of its tasks get the error', async () => {
  const { sent, ask, tasks } = gathering()
  const results = [1, 2, 3, 4, 5].map(ask)
  sent[0]?.done()
  await results[0]
  sent[1]?.fail(new Error('the thread died'))
  for (const at of [1, 2, 3]) await assert.rejects(results[at]!, /the thread died/)
  assert.deepEqual(tasks().at(-1), [5])
  sent[2]?.done(0)
  await assert.rejects(results[4]!, /batch of tasks returned no result/)
  const next = ask(7)
  sent[3]?.done()
  assert.equal(await next, 49)
})
