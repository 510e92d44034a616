import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makePool } from '#runtime/pool.ts'

const ENTRY = new URL('./threads/gated.ts', import.meta.url)

test('tasks of a pool start in the order of arrival', async (t) => {
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
    // For each that ends a new one comes, as from clients that never stop asking.
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

test('a pool with a full queue refuses work', async (t) => {
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

test('a pool reports the CPU time of its threads, also during long work', async (t) => {
  const pool = makePool({ entry: ENTRY, threads: 1, data: {}, queueMax: 2 })
  t.after(() => pool.close())
  const gate = new SharedArrayBuffer(4)
  const open = new Int32Array(gate)
  Atomics.store(open, 0, 1)
  await pool.run({ number: 0, gate }, 'pass')
  const before = await pool.cpuSeconds()
  assert(before > 0)
  // It is blocked there and receives nothing meanwhile.
  const work = pool.run({ number: 1, gate }, 'pass')
  assert((await pool.cpuSeconds()) >= before)
  Atomics.store(open, 0, 2)
  Atomics.notify(open, 0)
  await work
})
