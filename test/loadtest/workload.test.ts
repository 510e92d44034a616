import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PROFILES, workloadOf } from '../../loadtest/profiles/all.ts'
import { isOrder, ordersOf, planOf } from '../../loadtest/workload.ts'

const RUN = { profile: 'mixed', seed: 5, rate: 500, seconds: 20, markets: 7, traders: 11 } as const

test('the planned load is equal for equal seeds and differs for different seeds', () => {
  const plan = [...planOf(workloadOf(RUN))]
  assert.deepEqual([...planOf(workloadOf(RUN))], plan)
  assert.notDeepEqual([...planOf(workloadOf({ ...RUN, seed: 6 }))], plan)
  assert.deepEqual([...ordersOf(workloadOf(RUN))], plan.filter(isOrder))
})

test('the planned load has the requested rate, rising times, and only markets and traders of the run', () => {
  const plan = [...planOf(workloadOf(RUN))]
  // About 10,000 arrivals are expected, with a standard deviation of 100. So 500 is five standard deviations.
  assert(Math.abs(plan.length - RUN.rate * RUN.seconds) < 500, `${plan.length}`)
  let lastMs = 0
  let number = 0
  for (const operation of plan) {
    assert(operation.atMs >= lastMs && operation.atMs < RUN.seconds * 1_000)
    lastMs = operation.atMs
    if (!isOrder(operation)) continue
    assert.equal(operation.number, number++)
    assert(operation.market < RUN.markets && operation.trader < RUN.traders)
    assert(operation.price >= 1 && operation.price <= 999_999 && operation.size > 0)
  }
})

test('the planned load cancels no quote twice, and none that is younger than one second', () => {
  const placedAtMs = new Map<number, number>()
  const cancelled = new Set<number>()
  for (const operation of planOf(workloadOf(RUN))) {
    if (isOrder(operation)) {
      if (operation.kind === 'place') placedAtMs.set(operation.number, operation.atMs)
    } else if (operation.kind === 'cancel') {
      const { number } = operation.order
      assert(operation.atMs - (placedAtMs.get(number) ?? Number.NaN) >= 1_000)
      assert(!cancelled.has(number))
      cancelled.add(number)
    }
  }
  assert(cancelled.size > 100)
})

test('every load profile plans exactly its kinds of operations, and the spike profile ends with a peak of load', () => {
  for (const [profile, { mix }] of Object.entries(PROFILES)) {
    const kinds = new Set<string>()
    const run = { ...RUN, profile, rate: 200 }
    for (const { kind } of planOf(workloadOf(run))) kinds.add(kind)
    assert.deepEqual([...kinds].toSorted(), Object.keys(mix).toSorted(), profile)
  }
  const spike = [...planOf(workloadOf({ ...RUN, profile: 'spike' }))]
  const calm = spike.filter(({ atMs }) => atMs < 15_000).length / 15
  const storm = spike.filter(({ atMs }) => atMs >= 15_000).length / 5
  assert(storm > 5 * calm)
})
