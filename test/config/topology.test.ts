import assert from 'node:assert/strict'
import { test } from 'node:test'
import { partitionOf, partitionsOf, threadOf } from '#config/topology.ts'
import type { MarketId } from '#domain/ids.ts'

const market = (n: number) => `0x${n.toString(16).padStart(64, '0')}` as MarketId

test('a market keeps its partition when the number of market threads changes', () => {
  for (let n = 0; n < 200; n++) {
    const one = partitionOf(market(n * 7919), { partitions: 8, marketThreads: 1, pins: {} })
    const many = partitionOf(market(n * 7919), { partitions: 8, marketThreads: 5, pins: {} })
    assert.equal(one, many)
    assert(one >= 0 && one < 8)
  }
})

test('a setting can assign one market to a partition without moving other markets', () => {
  const topology = { partitions: 8, marketThreads: 1, pins: { [market(5)]: 2 } }
  assert.equal(partitionOf(market(5), topology), 2)
  assert.equal(partitionOf(market(13), topology), 5)
})

test('each partition belongs to exactly one thread, and the threads have about the same number of partitions', () => {
  const topology = { partitions: 8, marketThreads: 3, pins: {} }
  const owned = [0, 1, 2].map((thread) => partitionsOf(thread, topology))
  assert.deepEqual(owned.flat().toSorted(), [0, 1, 2, 3, 4, 5, 6, 7])
  for (const [thread, partitions] of owned.entries()) {
    for (const partition of partitions) assert.equal(threadOf(partition, topology), thread)
    assert(partitions.length >= 2 && partitions.length <= 3)
  }
})
