import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeConnectionCount, makeConnectionCountMemory } from '#stream/connection-count.ts'
import { randomFrom } from '../support/random.ts'

test('every front knows how many streams an IP range has open at all fronts together', () => {
  const memory = makeConnectionCountMemory(3, 'secret')
  const fronts = [0, 1, 2].map((front) => makeConnectionCount(memory, front))
  const random = randomFrom(5)
  const ranges = Array.from({ length: 50 }, (_, index) => `10.0.0.${index}`)
  const open: [front: number, range: string][] = []
  for (let step = 0; step < 5_000; step++) {
    if (open.length > 0 && random.chance(0.48)) {
      const [[front, range] = [0, '']] = open.splice(random.int(0, open.length - 1), 1)
      fronts[front]!.add(range, -1)
    } else {
      const one: [number, string] = [random.int(0, 2), random.pick(ranges)]
      open.push(one)
      fronts[one[0]]!.add(one[1], 1)
    }
    const range = random.pick(ranges)
    const expected = open.filter(([, each]) => each === range).length
    for (const front of fronts) assert.equal(front.of(range), expected)
  }
})

test('when a front restarts, the streams of its previous process are no longer counted', () => {
  const memory = makeConnectionCountMemory(2, 'secret')
  const stays = makeConnectionCount(memory, 0)
  const dies = makeConnectionCount(memory, 1)
  stays.add('10.0.0.1', 1)
  for (let count = 0; count < 5; count++) dies.add('10.0.0.1', 1)
  assert.equal(stays.of('10.0.0.1'), 6)
  const reborn = makeConnectionCount(memory, 1)
  assert.deepEqual([stays.of('10.0.0.1'), reborn.of('10.0.0.1')], [1, 1])
  reborn.add('10.0.0.1', 1)
  assert.equal(stays.of('10.0.0.1'), 2)
})

test('if more IP ranges connect than can be counted, a range with many streams is still counted', () => {
  const memory = makeConnectionCountMemory(2, 'secret')
  const here = makeConnectionCount(memory, 0)
  const there = makeConnectionCount(memory, 1)
  for (let count = 0; count < 400; count++) here.add('10.0.0.1', 1)
  for (let index = 0; index < 250_000; index++) here.add(`2001:db8:${index}::/64`, 1)
  assert.equal(there.of('10.0.0.1'), 400)
})
