import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makePool, PoolFull } from '#runtime/pool.ts'

const ENTRY = new URL('./threads/gated.ts', import.meta.url)

test('tasks of a thread pool start in the order of arrival', async (t) => {
  const pool = makePool({ entry: ENTRY, threads: 1, data: {}, queueMax: 100 })
  t.after(() => pool.close())
  const gate = new SharedArrayBuffer(4)
  const open = new Int32Array(gate)
  const COUNT = 40
  const ended: number[] = []
  let asked = 0
  const ask = async (): Promise<void> => {
    const number = asked++
    ended.push((await pool.run({ number, gate }, 'pass')) as number)
    // Each task that ends is followed by a new one, as with clients that keep sending.
    if (asked < COUNT) works.push(ask())
    Atomics.store(open, 0, asked)
    Atomics.notify(open, 0)
  }
  const works: Promise<void>[] = []
  for (let each = 0; each < 10; each++) works.push(ask())
  Atomics.store(open, 0, asked)
  Atomics.notify(open, 0)
  for (let each = 0; each < works.length; each++) await works[each]
  assert.deepEqual(
    ended,
    Array.from({ length: COUNT }, (_, number) => number),
  )
})

test('a thread pool with a full queue refuses tasks', async (t) => {
  const pool = makePool({ entry: ENTRY, threads: 1, data: {}, queueMax: 2 })
  t.after(() => pool.close())
  const gate = new SharedArrayBuffer(4)
  const works = [0, 1, 2, 3, 4].map((number) => pool.run({ number, gate }, 'pass'))
  const refused = await Promise.race(
    works.map((work, index) =>
      work.then(
        () => -1,
        () => index,
      ),
    ),
  )
  assert(refused >= 3, `task ${refused} found room`)
  const open = new Int32Array(gate)
  Atomics.store(open, 0, 10)
  Atomics.notify(open, 0)
  const ends = await Promise.allSettled(works)
  assert(ends.slice(0, 3).every(({ status }) => status === 'fulfilled'))
})

test('when a thread pool closes, its waiting tasks fail with the error PoolFull', async () => {
  const pool = makePool({ entry: ENTRY, threads: 1, data: {}, queueMax: 9 })
  const gate = new SharedArrayBuffer(4)
  const works = [0, 1, 2].map((number) => pool.run({ number, gate }, 'pass'))
  const refused = assert.rejects(works[2]!, PoolFull)
  const closed = pool.close()
  await refused
  const open = new Int32Array(gate)
  Atomics.store(open, 0, 10)
  Atomics.notify(open, 0)
  await Promise.allSettled(works)
  await closed
})

test('a thread pool reports the CPU time of its threads, also during a long task', async (t) => {
  const pool = makePool({ entry: ENTRY, threads: 1, data: {}, queueMax: 2 })
  t.after(() => pool.close())
  const gate = new SharedArrayBuffer(4)
  const open = new Int32Array(gate)
  Atomics.store(open, 0, 1)
  await pool.run({ number: 0, gate }, 'pass')
  const before = await pool.cpuSeconds()
  assert(before > 0)
  // The thread is blocked in its task and receives no messages.
  const work = pool.run({ number: 1, gate }, 'pass')
  assert((await pool.cpuSeconds()) >= before)
  Atomics.store(open, 0, 2)
  Atomics.notify(open, 0)
  await work
})
