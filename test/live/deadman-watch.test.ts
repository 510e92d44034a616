import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import type { DeadmanSwitch } from '#domain/deadman.ts'
import { makeDeadmanWatch } from '#live/deadman-watch.ts'
import { traderNamed } from '../support/orders.ts'

function given(stored: DeadmanSwitch[]) {
  const world = {
    nowMs: 1_000_000,
    isAway: false,
    isRefusing: false,
    cancelled: [] as string[],
    /** For each call of `clear`, the number of dead-man switches that the call received. */
    clears: [] as number[],
    /** Called before each cancel. */
    before: async (_address: string) => {},
    /** Called before each read answers. */
    afterRead: async () => {},
    /** Called before each clear. */
    beforeClear: async () => {},
    failures: 0,
  }
  const watch = makeDeadmanWatch({
    async read({ beforeMs, limit }) {
      if (world.isAway) throw new Error('the database is away')
      const due = stored.filter(({ dueAtMs }) => dueAtMs < beforeMs).slice(0, limit)
      await world.afterRead()
      return due
    },
    async cancelAll({ address }) {
      await world.before(address)
      if (world.isRefusing) return false
      world.cancelled.push(address)
      return true
    },
    async clear(fired) {
      world.clears.push(fired.length)
      await world.beforeClear()
      if (world.isAway) throw new Error('the database is away')
      for (const { keyId, dueAtMs } of fired) {
        const at = stored.findIndex((one) => one.keyId === keyId && one.dueAtMs === dueAtMs)
        if (at >= 0) stored.splice(at, 1)
      }
    },
    nowMs: () => world.nowMs,
    fired: () => undefined,
    failed: () => {
      world.failures++
    },
  })
  return { world, watch, stored }
}

const ann = (dueAtMs: number): DeadmanSwitch => ({
  ...{ keyId: 'k1', address: traderNamed('ann'), dueAtMs },
})

test('a dead-man switch cancels its trader’s orders exactly once, at its due time', async () => {
  const { world, watch, stored } = given([ann(1_005_000)])
  await watch.turn()
  assert.deepEqual(world.cancelled, [])
  world.nowMs = 1_005_000
  await watch.turn()
  await watch.turn()
  assert.deepEqual(world.cancelled, [traderNamed('ann')])
  assert.deepEqual(stored, [])
})

test('a dead-man switch that was renewed through another front cancels no orders at its old due time', async () => {
  const { world, watch, stored } = given([ann(1_005_000)])
  await watch.turn()
  stored[0] = ann(1_050_000)
  world.nowMs = 1_005_000
  await watch.turn()
  assert.deepEqual(world.cancelled, [])
})

test('a dead-man switch that the front has already read fires even if the database is unavailable', async () => {
  const { world, watch, stored } = given([ann(1_005_000)])
  await watch.turn()
  world.isAway = true
  world.nowMs = 1_005_000
  await watch.turn()
  assert.deepEqual(world.cancelled, [traderNamed('ann')])
  assert.ok(world.failures > 0)
  // The database still has the fired switch. Once the database is available, the watch removes the switch from it. The
  // watch does not fire the switch a second time, because that would cancel new orders.
  await setImmediate()
  world.isAway = false
  await watch.turn()
  await setImmediate()
  assert.deepEqual([stored, world.cancelled.length], [[], 1])
})

test('if a dead-man switch’s cancels are refused, they are sent again until they succeed', async () => {
  const { world, watch, stored } = given([ann(1_000_000)])
  world.isRefusing = true
  await watch.turn()
  assert.equal(stored.length, 1)
  world.isRefusing = false
  await watch.turn()
  assert.deepEqual([world.cancelled.length, stored.length], [1, 0])
})

test('a due dead-man switch is read again before it fires; if it was renewed, it does not fire', async () => {
  const bob = { keyId: 'k2', address: traderNamed('bob'), dueAtMs: 1_003_000 }
  const { world, watch, stored } = given([ann(1_000_000), bob])
  world.before = async () => {
    // Bob's switch becomes due while Ann's orders are being cancelled. But Bob has renewed the switch meanwhile.
    world.nowMs = 1_004_000
    stored[stored.findIndex(({ keyId }) => keyId === 'k2')] = { ...bob, dueAtMs: 1_050_000 }
  }
  await watch.turn()
  await watch.turn()
  assert.deepEqual(world.cancelled, [traderNamed('ann')])
})

test('two due dead-man switches fire at once, so slow cancels of one do not delay the other', async () => {
  const bob = { keyId: 'k2', address: traderNamed('bob'), dueAtMs: 1_000_000 }
  const { world, watch } = given([ann(999_000), bob])
  const cancelledBob = Promise.withResolvers<void>()
  world.before = async (address) => {
    if (address === bob.address) cancelledBob.resolve()
    else await cancelledBob.promise
  }
  await watch.turn()
  assert.deepEqual(new Set(world.cancelled), new Set([bob.address, traderNamed('ann')]))
})

test('while one dead-man switch still cancels orders, a switch that becomes due later fires on time', async () => {
  const bob = { keyId: 'k2', address: traderNamed('bob'), dueAtMs: 1_001_000 }
  const { world, watch } = given([ann(1_000_000), bob])
  const cancelledAnn = Promise.withResolvers<void>()
  let asked = 0
  world.before = async (address) => {
    if (address === bob.address) return
    asked++
    await cancelledAnn.promise
  }
  const first = watch.turn()
  await setImmediate()
  world.nowMs = 1_001_000
  await watch.turn()
  await watch.turn()
  assert.deepEqual([world.cancelled, asked], [[bob.address], 1])
  cancelledAnn.resolve()
  await first
  await watch.turn()
  assert.deepEqual([world.cancelled.length, asked], [2, 1])
})

test('if a dead-man switch’s cancels failed, they are sent again even while the database is unavailable', async () => {
  const { world, watch } = given([ann(1_000_000)])
  const failing = Promise.withResolvers<void>()
  const reading = Promise.withResolvers<void>()
  world.isRefusing = true
  world.before = () => failing.promise
  const first = watch.turn()
  await setImmediate()
  world.afterRead = () => reading.promise
  const second = watch.turn()
  failing.resolve()
  await first
  world.isAway = true
  reading.resolve()
  await second
  world.isRefusing = false
  await watch.turn()
  assert.deepEqual(world.cancelled, [traderNamed('ann')])
})

test('600 due dead-man switches fire without waiting for the database, and are then deleted in few database writes', async () => {
  const many = Array.from({ length: 600 }, (_, at) => ({
    ...{ keyId: `k${at}`, address: traderNamed(`trader-${at}`), dueAtMs: 1_000_000 },
  }))
  const { world, watch, stored } = given([...many])
  const cleared = Promise.withResolvers<void>()
  world.beforeClear = () => cleared.promise
  await watch.turn()
  await watch.turn()
  assert.deepEqual([world.cancelled.length, stored.length], [600, 600])
  assert.equal(world.clears.length, 1)
  cleared.resolve()
  await setImmediate()
  assert.deepEqual(stored, [])
  assert.ok(world.clears.length <= 4, `${world.clears.length} writes`)
})

test('a dead-man switch fires only once, even if it is cleared while the database is read', async () => {
  const { world, watch, stored } = given([ann(1_000_000)])
  const cleared = Promise.withResolvers<void>()
  const read = Promise.withResolvers<void>()
  world.beforeClear = () => cleared.promise
  await watch.turn()
  world.afterRead = () => read.promise
  const turn = watch.turn()
  cleared.resolve()
  await setImmediate()
  assert.deepEqual(stored, [])
  read.resolve()
  await turn
  assert.equal(world.cancelled.length, 1)
})

test('a dead-man switch that is renewed after it fired fires again at its new time', async () => {
  const { world, watch, stored } = given([ann(1_000_000)])
  const cleared = Promise.withResolvers<void>()
  world.beforeClear = () => cleared.promise
  await watch.turn()
  stored[0] = ann(1_002_000)
  world.nowMs = 1_002_000
  await watch.turn()
  assert.equal(world.cancelled.length, 2)
  cleared.resolve()
  await setImmediate()
  assert.deepEqual(stored, [])
})
