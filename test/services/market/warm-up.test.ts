import assert from 'node:assert/strict'
import { test } from 'node:test'
import { warmUp } from '#services/market/thread/warm-up.ts'

test('a warm-up places, matches and cancels orders, and the next one starts over', () => {
  const events = warmUp(1_000, { selfTrade: 'allow' })
  // Every order rests or matches; fills, closed makers and cancels come on top.
  assert(events > 1_000, `${events} events`)
  assert.equal(warmUp(1_000, { selfTrade: 'allow' }), events)
  assert.equal(warmUp(0, { selfTrade: 'allow' }), 0)
})
