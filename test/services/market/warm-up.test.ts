import assert from 'node:assert/strict'
import { test } from 'node:test'
import { warmUp } from '#services/market/thread/warm-up.ts'

test('the market warm-up places, matches and cancels synthetic orders, with the same result each time', () => {
  const events = warmUp(1_000, { selfTrade: 'allow' })
  // There is at least one event per order; fills, closed makers and cancels add more.
  assert(events > 1_000, `${events} events`)
  assert.equal(warmUp(1_000, { selfTrade: 'allow' }), events)
  assert.equal(warmUp(0, { selfTrade: 'allow' }), 0)
})
