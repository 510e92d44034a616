import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { makeNonceLedger } from '#http/nonce-ledger.ts'
import { makeSharedTable, SharedTable, type SharedTableMemory } from '#http/shared-table.ts'
import { withSeeds } from '../support/random.ts'
import { LIMITS } from './limit-fixture.ts'
import type { HammerData, HammerResult } from './threads/hammer.ts'

const THREADS = 4

async function hammer(
  task: HammerData['task'],
  memory: SharedTableMemory,
  rounds: number,
): Promise<HammerResult[]> {
  const gate = new SharedArrayBuffer(4)
  const workerData: HammerData = { memory, gate, task, rounds }
  const workers = Array.from(
    { length: THREADS },
    () => new Worker(new URL('./threads/hammer.ts', import.meta.url), { workerData }),
  )
  const next = (worker: Worker) =>
    new Promise<unknown>((resolve, reject) => {
      worker.once('message', resolve)
      worker.once('error', reject)
    })
  await Promise.all(workers.map(next))
  const results = workers.map(next)
  Atomics.store(new Int32Array(gate), 0, 1)
  Atomics.notify(new Int32Array(gate), 0)
  return (await Promise.all(results)) as HammerResult[]
}

test('no addition is lost when several threads add to the same shared counters', async () => {
  const memory = makeSharedTable(1, 'secret')
  const rounds = 50_000
  await hammer('count', memory, rounds)
  const table = new SharedTable(memory)
  for (let counter = 0; counter < 4; counter++) {
    let seen = 0
    table.update(
      `counter ${counter}`,
      (value) => {
        seen = value
        return undefined
      },
      () => false,
    )
    assert.equal(seen, (THREADS * rounds) / 4)
  }
})

test('when several threads use one nonce at the same time, exactly one of them succeeds', async () => {
  const rounds = 20_000
  const results = await hammer('nonces', makeSharedTable(rounds, 'secret'), rounds)
  const first = results.reduce((sum, { allowed }) => sum + allowed, 0)
  assert.equal(first, rounds)
})

test('several threads together grant at least the burst of their shared rate limit, and never exceed the limit', async () => {
  const results = await hammer('draw', makeSharedTable(100, 'secret'), 20_000)
  const allowed = results.reduce((sum, result) => sum + result.allowed, 0)
  const startedAtMs = Math.min(...results.map((result) => result.startedAtMs))
  const endedAtMs = Math.max(...results.map((result) => result.endedAtMs))
  const flowed = ((endedAtMs - startedAtMs) / 1_000) * LIMITS.ipPerSecond
  assert.ok(allowed <= LIMITS.ipBurst + flowed + 0.01, `${allowed} for ${flowed} that flowed in`)
  assert.ok(allowed >= LIMITS.ipBurst, `only ${allowed}`)
})

test('if a thread died while it held a shared table’s lock, another thread takes the lock over', () => {
  const memory = makeSharedTable(1, 'secret')
  const words = new Int32Array(memory.words)
  words.fill(0)
  // Leaves the lock held, as a dead thread would. Memory for one record has one set, whose lock is word 0.
  Atomics.store(words, 0, 1)
  let updated = false
  new SharedTable(memory).update(
    'key',
    () => {
      updated = true
      return 1
    },
    () => false,
  )
  assert.ok(updated)
  assert.equal(Atomics.load(words, 0), 0)
})

test('a shared table with free room returns the same values as a map', () => {
  withSeeds([1, 2, 3], (random) => {
    const table = new SharedTable(makeSharedTable(2_000, 'secret'))
    const map = new Map<string, number>()
    for (let step = 0; step < 20_000; step++) {
      const key = `key ${random.int(0, 1_999)}`
      const next = random.chance(0.3) ? undefined : random.int(1, 1_000_000)
      let seen = -1
      const room = table.update(
        key,
        (value) => {
          seen = value
          return next
        },
        () => false,
      )
      assert.ok(room, `no room after ${map.size}`)
      assert.equal(seen, map.get(key) ?? 0)
      if (next !== undefined) map.set(key, next)
    }
  })
})

test('a shared table has room for its declared number of entries with any random keys', () => {
  withSeeds([11, 12, 13], (random) => {
    const ledger = makeNonceLedger(makeSharedTable(50_000, random.hex(16)))
    for (let nonce = 0; nonce < 50_000; nonce++) {
      assert.equal(ledger.use('key', random.hex(16), 2, 1), 'first', `nonce ${nonce}`)
    }
  })
})

test('a full part of the shared table evicts its record of lowest value only if the caller agrees', () => {
  const table = new SharedTable(makeSharedTable(1, 'secret'))
  let kept = 0
  while (
    table.update(
      `key ${kept}`,
      () => 100 + kept,
      () => false,
    )
  )
    kept++
  const lowest: number[] = []
  const refused = table.update(
    'more',
    () => 1_000,
    (value) => {
      lowest.push(value)
      return false
    },
  )
  assert.deepEqual([refused, lowest], [false, [100]])
  assert.ok(
    table.update(
      'more',
      () => 1_000,
      () => true,
    ),
  )
  const keptOf = (key: string) => {
    let seen = -1
    table.update(
      key,
      (value) => {
        seen = value
        return undefined
      },
      () => true,
    )
    return seen
  }
  assert.deepEqual([keptOf('key 0'), keptOf('key 1'), keptOf('more')], [0, 101, 1_000])
})
