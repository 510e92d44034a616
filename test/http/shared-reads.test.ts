import assert from 'node:assert/strict'
import { test } from 'node:test'
import { shareReads } from '#http/shared-reads.ts'

function keeping(keepMs: number, entriesMax = 10) {
  const clock = { now: 1_000, nowMs: () => clock.now }
  const lists = shareReads<number>({ keepMs, entriesMax, clock })
  let made = 0
  const read = (name: string) => lists.read(name, async () => ++made)
  return { clock, lists, read, made: () => made }
}

test('simultaneous callers of a read share one result, and so do callers within the cache time', async () => {
  const { clock, read, made } = keeping(250)
  assert.deepEqual(await Promise.all([read('a'), read('a'), read('b')]), [1, 1, 2])
  clock.now += 249
  assert.equal(await read('a'), 1)
  clock.now += 1
  assert.equal(await read('a'), 3)
  assert.equal(made(), 3)
})

test('with a cache time of 0, callers share a read’s result only while they wait for it', async () => {
  const { read } = keeping(0)
  assert.deepEqual(await Promise.all([read('a'), read('a')]), [1, 1])
  assert.equal(await read('a'), 2)
})

test('a failed read is not cached, and every waiting caller gets its error', async () => {
  const { lists, read } = keeping(250)
  const fails = () => lists.read('a', () => Promise.reject(new Error('away')))
  const [one, other] = await Promise.allSettled([fails(), fails()])
  assert.deepEqual([one.status, other.status], ['rejected', 'rejected'])
  assert.equal(await read('a'), 1)
})

test('the cache of shared reads never contains more results than its limit', async () => {
  const { read, made } = keeping(250, 2)
  for (const name of ['a', 'b', 'c']) await read(name)
  await read('c')
  await read('b')
  assert.equal(made(), 3)
  await read('a')
  assert.equal(made(), 4, 'the oldest was forgotten')
})

test('a large result evicts older results from the read cache, and a too large one is not cached', async () => {
  const clock = { nowMs: () => 0 }
  const weigh = (value: number) => value
  const reads = shareReads<number>({ keepMs: 250, entriesMax: 10, clock, weightMax: 100, weigh })
  let made = 0
  const read = async (name: string, weight: number) => {
    await reads.read(name, async () => {
      made++
      return weight
    })
    return made
  }
  assert.equal(await read('a', 60), 1)
  assert.equal(await read('b', 40), 2)
  assert.equal(await read('a', 60), 2)
  assert.equal(await read('c', 10), 3)
  assert.equal(await read('b', 40), 3)
  assert.equal(await read('a', 60), 4, 'the oldest had made room')
  assert.equal(await read('d', 101), 5)
  assert.equal(await read('d', 101), 6)
})
