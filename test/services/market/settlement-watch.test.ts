import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeSettlementWatch } from '#services/market/host/settlement-watch.ts'

const chains = new Set([1, 137])

test('if settlement stays disconnected beyond the maximum lag, a market thread reports once that settlement is behind', () => {
  const watch = makeSettlementWatch({ maxMs: 1_000, chains }, 0)
  assert.deepEqual(watch.look(1_000), [])
  assert.deepEqual(watch.look(1_001), [1, 137], 'it has never come')
  assert.deepEqual(watch.look(9_000), [])
  watch.linked()
  assert.deepEqual(watch.look(90_000), [], 'it is there')
  watch.gone(100_000)
  assert.deepEqual(watch.look(101_000), [])
  assert.deepEqual(watch.look(101_001), [1, 137], 'it has left')
})

test('settlement does not count as disconnected if its new link opens before the old link closes', () => {
  const watch = makeSettlementWatch({ maxMs: 1_000, chains }, 0)
  watch.linked()
  watch.linked()
  watch.gone(10)
  assert.deepEqual(watch.look(50_000), [])
})

test('without a maximum lag, settlement never counts as behind', () => {
  assert.deepEqual(makeSettlementWatch({ maxMs: 0, chains }, 0).look(1e12), [])
})
