import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import fc from 'fast-check'
import { isRejection, type Rejection } from '#domain/rejection.ts'
import { type Batcher, makeBatcher, TASKS_PER_WORKER } from '#verify/batcher.ts'

type Task = {
  readonly items: readonly number[]
  readonly answer: () => void
  readonly fail: () => void
}

/** Makes a batcher with a pool and an event loop that the test controls. */
function createBench(
  settings: { workers?: number; batchMax?: number; heldMax?: number; deadlineMs?: number } = {},
) {
  const tasks: Task[] = []
  const failures: unknown[] = []
  const turns: (() => void)[] = []
  const clock = { nowMs: 0 }
  const batcher: Batcher<number, string> = makeBatcher({
    workers: settings.workers ?? 2,
    batchMax: settings.batchMax ?? 32,
    heldMax: settings.heldMax ?? 1_000,
    deadlineMs: settings.deadlineMs ?? 1_000,
    run: (items) =>
      new Promise((resolve, reject) => {
        tasks.push({
          items,
          answer: () => resolve(items.map((item) => `answer ${item}`)),
          fail: () => reject(new Error('the worker died')),
        })
      }),
    onFailure: (error) => failures.push(error),
    nowMs: () => clock.nowMs,
    defer: (then) => turns.push(then),
  })
  return {
    batcher,
    tasks,
    failures,
    clock,
    askAll: (count: number, from = 0) =>
      Array.from({ length: count }, (_, index) => batcher.ask(from + index)),
    endTurn: () => {
      for (const then of turns.splice(0)) then()
    },
    /** Lets all pending promise callbacks run. */
    settle: () => new Promise<void>((resolve) => setImmediate(resolve)),
  }
}

function codeOf(answer: string | Rejection): string {
  return isRejection(answer) ? answer.rejected : answer
}

test('a single signature check is sent to a worker at the end of the event-loop turn', async () => {
  const { batcher, tasks, endTurn } = createBench()
  const answer = batcher.ask(7)
  assert.equal(tasks.length, 0)
  endTurn()
  assert.deepEqual(
    tasks.map((task) => task.items),
    [[7]],
  )
  tasks[0]!.answer()
  assert.equal(await answer, 'answer 7')
  assert.equal(batcher.held(), 0)
})

test('the signature checks of one event-loop turn are divided evenly between the workers', () => {
  for (const [count, sizes] of [
    [2, [1, 1]],
    [5, [3, 2]],
    [40, [20, 20]],
    [64, [32, 32]],
    [100, [32, 32, 32, 4]],
  ] as const) {
    const { tasks, askAll, endTurn } = createBench()
    void askAll(count)
    endTurn()
    assert.deepEqual(
      tasks.map((task) => task.items.length),
      sizes,
    )
  }
})

test('while a worker is busy, further signature checks wait and are then sent in one batch', async () => {
  const { tasks, askAll, endTurn, settle } = createBench({ workers: 1 })
  for (let index = 0; index < 10; index++) {
    void askAll(1, index)
    endTurn()
  }
  assert.equal(tasks.length, TASKS_PER_WORKER)
  tasks[0]!.answer()
  await settle()
  assert.deepEqual(tasks.at(-1)!.items, [2, 3, 4, 5, 6, 7, 8, 9])
})

test('signature checks above the limit are refused immediately, until there is room again', async () => {
  const { batcher, tasks, askAll, endTurn, settle } = createBench({ heldMax: 10 })
  void askAll(10)
  assert.equal(codeOf(await batcher.ask(10)), 'OVERLOADED')
  endTurn()
  assert.equal(codeOf(await batcher.ask(11)), 'OVERLOADED')
  tasks[0]!.answer()
  await settle()
  const answer = batcher.ask(12)
  endTurn()
  for (const task of tasks) task.answer()
  assert.equal(await answer, 'answer 12')
})

test('a signature check that misses its deadline is refused as OVERLOADED, and a later result is ignored', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.after(() => mock.timers.reset())
  const { batcher, tasks, askAll, endTurn, clock, settle } = createBench({
    workers: 1,
    batchMax: 1,
    deadlineMs: 100,
  })
  const early = askAll(5)
  endTurn()
  clock.nowMs = 60
  const later = batcher.ask(5)
  clock.nowMs = 100
  mock.timers.tick(100)
  assert.deepEqual((await Promise.all(early)).map(codeOf), Array(5).fill('OVERLOADED'))
  assert.equal(batcher.held(), 1)
  for (const task of tasks.splice(0)) task.answer()
  await settle()
  endTurn()
  assert.deepEqual(
    tasks.map((task) => task.items),
    [[5]],
  )
  clock.nowMs = 160
  mock.timers.tick(60)
  assert.equal(codeOf(await later), 'OVERLOADED')
  assert.equal(batcher.held(), 0)
})

test('the signature checks of a worker that died are repeated, one by one', async () => {
  const { tasks, failures, askAll, endTurn, settle } = createBench({ workers: 1 })
  const answers = askAll(3)
  endTurn()
  tasks.shift()!.fail()
  await settle()
  assert.equal(failures.length, 1)
  while (tasks.length > 0) {
    assert.equal(tasks[0]!.items.length, 1)
    tasks.shift()!.answer()
    await settle()
  }
  assert.deepEqual(await Promise.all(answers), ['answer 0', 'answer 1', 'answer 2'])
})

test('signature checks past their deadline are not repeated when their worker dies', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.after(() => mock.timers.reset())
  const { batcher, tasks, askAll, endTurn, clock, settle } = createBench({ deadlineMs: 100 })
  const answers = askAll(4)
  endTurn()
  clock.nowMs = 100
  mock.timers.tick(100)
  assert.deepEqual((await Promise.all(answers)).map(codeOf), Array(4).fill('OVERLOADED'))
  for (const task of tasks.splice(0)) task.fail()
  await settle()
  assert.equal(tasks.length, 0)
  await batcher.close()
})

test('a signature check that kills its worker fails alone, after a second attempt', async () => {
  const { tasks, failures, askAll, endTurn, settle } = createBench({ workers: 1 })
  const answers = askAll(4)
  endTurn()
  while (tasks.length > 0) {
    const task = tasks.shift()!
    if (task.items.includes(2)) task.fail()
    else task.answer()
    await settle()
  }
  const codes = (await Promise.all(answers)).map(codeOf)
  assert.deepEqual(codes, ['answer 0', 'answer 1', 'INTERNAL', 'answer 3'])
  assert.equal(failures.length, 2)
})

test('if the worker pool throws or returns too few results, each signature check gets the error INTERNAL', async () => {
  for (const run of [
    () => {
      throw new Error('the pool is gone')
    },
    async () => [],
  ]) {
    const failures: unknown[] = []
    const batcher = makeBatcher<number, string>({
      workers: 1,
      deadlineMs: 1_000,
      run,
      onFailure: (error) => failures.push(error),
    })
    assert.equal(codeOf(await batcher.ask(1)), 'INTERNAL')
    assert.equal(failures.length, 2)
  }
})

test('closing the signature batcher refuses new checks and waits for the current checks', async () => {
  const { batcher, tasks, askAll, endTurn } = createBench()
  const answers = askAll(3)
  let closed = false
  const done = batcher.close().then(() => {
    closed = true
  })
  assert.equal(codeOf(await batcher.ask(9)), 'OVERLOADED')
  endTurn()
  assert.equal(closed, false)
  for (const task of tasks) task.answer()
  assert.deepEqual(await Promise.all(answers), ['answer 0', 'answer 1', 'answer 2'])
  await done
  await batcher.close()
})

test('random sequences of signature checks keep all size limits, and every check gets one answer', async () => {
  const steps = fc.array(
    fc.oneof(
      fc.record({ ask: fc.integer({ min: 1, max: 60 }) }),
      fc.constant('endTurn' as const),
      fc.record({ answer: fc.nat(20) }),
      fc.record({ fail: fc.nat(20) }),
    ),
    { maxLength: 60 },
  )
  const bounds = fc.record({
    workers: fc.integer({ min: 1, max: 4 }),
    batchMax: fc.integer({ min: 1, max: 16 }),
    heldMax: fc.integer({ min: 1, max: 100 }),
  })
  await fc.assert(
    fc.asyncProperty(bounds, steps, async (limits, script) => {
      const { batcher, tasks, askAll, endTurn, settle } = createBench(limits)
      const answers: Promise<string | Rejection>[] = []
      const check = () => {
        assert.ok(tasks.length <= limits.workers * TASKS_PER_WORKER)
        assert.ok(batcher.held() <= limits.heldMax)
        for (const { items } of tasks) {
          assert.ok(items.length >= 1 && items.length <= limits.batchMax)
          // Requests are sent in the order of their arrival.
          assert.deepEqual(
            items,
            items.toSorted((a, b) => a - b),
          )
        }
      }
      for (const step of script) {
        if (step === 'endTurn') endTurn()
        else if ('ask' in step) answers.push(...askAll(step.ask, answers.length))
        else {
          const index = 'answer' in step ? step.answer : step.fail
          const [task] = tasks.splice(index % Math.max(1, tasks.length), 1)
          if ('answer' in step) task?.answer()
          else task?.fail()
          await settle()
        }
        check()
      }
      endTurn()
      while (tasks.length > 0) {
        tasks.shift()!.answer()
        await settle()
        check()
      }
      assert.equal(batcher.held(), 0)
      for (const [index, answer] of (await Promise.all(answers)).entries()) {
        const expected = [`answer ${index}`, 'OVERLOADED', 'INTERNAL']
        assert.ok(expected.includes(codeOf(answer)), `request ${index} got ${codeOf(answer)}`)
      }
    }),
    { numRuns: 200 },
  )
})
