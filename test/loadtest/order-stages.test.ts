import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeOrderStages } from '../../loadtest/order-stages.ts'

const ANSWER = { status: 200, body: '' }

test('the load test report divides an order’s latency into time per server stage and time outside the stages', () => {
  const stages = makeOrderStages()
  const serverTiming = 'parse;dur=0.500, verify;dur=2.000, queue;dur=1.000, total;dur=6.000'
  stages.add({ ...ANSWER, latencyMs: 10, unsentMs: 1, serverTiming })
  // An answer without the `Server-Timing` header counts in no stage.
  stages.add({ ...ANSWER, latencyMs: 1_000, unsentMs: 1, serverTiming: '' })
  assert.equal(
    stages.line(),
    'unsent 1.0/1.0, outside 3.0/3.0, parse 0.5/0.5, verify 2.0/2.0, queue 1.0/1.0, between 2.5/2.5',
  )
})
