import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DeadmanSwitch } from '#domain/deadman.ts'
import { makeDeadmanWatch } from '#live/deadman-watch.ts'
import { traderNamed } from '../support/orders.ts'

function given(stored: DeadmanSwitch[]) {
  const world = {
    nowMs: 1_000_000,
    isAway: false,
    isRefusing: false,
    cancelled: [] as string[],
    /** Called before each cancel. */
    before: async (_address: string) => {},
    failures: 0,
  }
  const watch = makeDeadmanWatch({
    async read({ beforeMs, limit }) {
      if (world.isAway) throw new Error('the database is away')
      return stored.filter(({ dueAtMs }) => dueAtMs < beforeMs).slice(0, limit)
    },
    async cancelAll({ address }) {
      await world.before(address)
      if (world.isRefusing) return false
      world.cancelled.push(address)
      return true
    },
    async clear({ keyId, dueAtMs }) {
      if (world.isAway) throw new Error('the database is away')
      const at = stored.findIndex((one) => one.keyId === keyId && one.dueAtMs === dueAtMs)
      if (at >= 0) stored.splice(at, 1)
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

test('a dead-man switch fires once when it is due, and not before', async () => {
  const { world, watch, stored } = given([ann(1_005_000)])
  await watch.turn()
  assert.deepEqual(world.cancelled, [])
  world.nowMs = 1_005_000
  await watch.turn()
  await watch.turn()
  assert.deepEqual(world.cancelled, [traderNamed('ann')])
  assert.deepEqual(stored, [])
})

test('a dead-man switch that was renewed at another front does not fire', async () => {
  const { world, watch, stored } = given([ann(1_005_000)])
  await watch.turn()
  stored[0] = ann(1_050_000)
  world.nowMs = 1_005_000
  await watch.turn()
  assert.deepEqual(world.cancelled, [])
})

test('a loaded dead-man switch fires while the database is away', async () => {
  const { world, watch, stored } = given([ann(1_005_000)])
  await watch.turn()
  world.isAway = true
  world.nowMs = 1_005_000
  await watch.turn()
  assert.deepEqual(world.cancelled, [traderNamed('ann')])
  assert.ok(world.failures > 0)
  // It is still stored, so it fires once more when the database is back: that cancels nothing new.
  world.isAway = false
  await watch.turn()
  assert.deepEqual(stored, [])
})

test('a dead-man switch whose cancels were not confirmed is retried', async () => {
  const { world, watch, stored } = given([ann(1_000_000)])
  world.isRefusing = true
  await watch.turn()
  assert.equal(stored.length, 1)
  world.isRefusing = false
  await watch.turn()
  assert.deepEqual([world.cancelled.length, stored.length], [1, 0])
})

test('a switch that became due while others fired is read again first, so a renewal counts', async () => {
  const bob = { keyId: 'k2', address: traderNamed('bob'), dueAtMs: 1_003_000 }
  const { world, watch, stored } = given([ann(1_000_000), bob])
  world.before = async () => {
    // Cancelling for ann takes so long that bob's switch is due. It is renewed before that.
    world.nowMs = 1_004_000
    stored[stored.findIndex(({ keyId }) => keyId === 'k2')] = { ...bob, dueAtMs: 1_050_000 }
  }
  await watch.turn()
  await watch.turn()
  assert.deepEqual(world.cancelled, [traderNamed('ann')])
})

test('a switch whose cancels take long does not delay those of other traders', async () => {
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
