import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { MarketId } from '#domain/ids.ts'
import { makePartitionUse, type NeededMarkets } from '#live/partition-use.ts'

const PARTITIONS = 4
const DOZE_MS = 1_000

const idOf = (partition: number) => `0x${partition.toString(16).padStart(64, '0')}` as MarketId
const UNKNOWN = `0x${'f'.repeat(64)}` as MarketId

/**
 * Makes two market threads with two partitions each. `doze` stops the delivery of a partition's events, and `wake`
 * starts it again.
 */
function start() {
  const dozing = new Set<number>()
  const waking = new Map<number, PromiseWithResolvers<void>>()
  const state = { nowMs: 0, watched: [] as NeededMarkets, dozed: [] as number[][] }
  const load = () => ({
    doze(partitions: readonly number[]) {
      state.dozed.push([...partitions])
      for (const partition of partitions) dozing.add(partition)
    },
    wake(partition: number) {
      if (dozing.delete(partition)) waking.set(partition, Promise.withResolvers())
      return waking.get(partition)?.promise
    },
  })
  const threads = [load(), load()]
  const use = makePartitionUse({
    loads: Array.from({ length: PARTITIONS }, (_, partition) => threads[partition % 2]!),
    partitionOf: (marketId) => Number(marketId),
    isShown: (marketId) => marketId !== UNKNOWN,
    watched: () => state.watched,
    dozeMs: DOZE_MS,
    nowMs: () => state.nowMs,
  })
  return {
    ...{ use, state, dozing },
    woken() {
      for (const { resolve } of waking.values()) resolve()
      waking.clear()
    },
    rest(afterMs: number) {
      state.nowMs += afterMs
      use.rest()
      return [...dozing].sort()
    },
  }
}

test('at its start, a front asks every market thread to pause the events of all partitions', () => {
  const { dozing, state } = start()
  assert.deepEqual([...dozing].sort(), [0, 1, 2, 3])
  // One message for each market thread.
  assert.deepEqual(state.dozed, [
    [0, 2],
    [1, 3],
  ])
})

test('the first read of a market resumes its partition’s events, and waits until the events arrive', async () => {
  const { use, dozing, woken } = start()
  const waiting = use.need(idOf(2))
  assert(waiting !== undefined)
  assert.deepEqual([...dozing].sort(), [0, 1, 3])
  assert.equal(use.need(idOf(2)), waiting)
  assert.equal(use.needThese([idOf(2)]), false)
  woken()
  await waiting
  assert.equal(use.need(idOf(2)), undefined)
  assert.equal(use.needThese([idOf(2)]), true)
  assert.equal(use.needThese('all'), false)
  assert.equal(dozing.size, 0)
})

test('a read of an unknown market does not resume the events of any partition', () => {
  const { use, dozing } = start()
  assert.equal(use.need(UNKNOWN), undefined)
  assert.equal(use.needThese([UNKNOWN]), true)
  assert.equal(dozing.size, PARTITIONS)
})

test('a front pauses a partition’s events after the idle timeout, unless the partition has subscribers', () => {
  const { use, state, woken, rest } = start()
  use.needThese('all')
  woken()
  assert.deepEqual(rest(DOZE_MS - 1), [])
  use.need(idOf(1))
  state.watched = [idOf(3)]
  assert.deepEqual(rest(1), [0, 2])
  assert.deepEqual(rest(DOZE_MS), [0, 1, 2])
  // A client that leaves may return soon.
  state.watched = []
  assert.deepEqual(rest(DOZE_MS - 1), [0, 1, 2])
  assert.deepEqual(rest(1), [0, 1, 2, 3])
  use.needThese('all')
  woken()
  state.watched = 'all'
  assert.deepEqual(rest(10 * DOZE_MS), [])
})
