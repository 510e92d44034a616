import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeBoundedWork } from '#runtime/bounded-work.ts'
import { PoolFull } from '#runtime/pool.ts'

test('work above the concurrency limit waits in order, and work above the queue limit is refused', async () => {
  const bounded = makeBoundedWork({ underWayMax: 2, waitingMax: 2 })
  const begun: number[] = []
  const ends = Array.from({ length: 5 }, () => Promise.withResolvers<number>())
  const works = ends.map(({ promise }, number) =>
    bounded.run(() => {
      begun.push(number)
      return promise
    }),
  )
  const refused = assert.rejects(works[4]!, PoolFull)
  assert.deepEqual(begun, [0, 1])
  ends[1]?.resolve(11)
  assert.equal(await works[1], 11)
  assert.deepEqual(begun, [0, 1, 2])
  ends[0]?.reject(new Error('it failed'))
  await assert.rejects(works[0]!, /it failed/)
  assert.deepEqual(begun, [0, 1, 2, 3], 'a failure gives its place back')
  ends[2]?.resolve(12)
  ends[3]?.resolve(13)
  assert.deepEqual(await Promise.all([works[2], works[3]]), [12, 13])
  await refused
  assert.equal(await bounded.run(async () => 1), 1)
})
