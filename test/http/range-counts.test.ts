import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeRangeCounts } from '#http/range-counts.ts'

test('while all clients together use too much, each IP address may use only a fraction of its limit', () => {
  const counts = makeRangeCounts({ perRangeMax: 640, totalMax: 1_000, siteTimes: 4 })
  counts.add('203.0.113.1', 500)
  counts.add('203.0.113.2', 20)
  counts.add('2001:db8:0:1::1', 30)
  counts.add('2001:db8:0:2::1', 30)
  assert.equal(counts.isFull('203.0.113.1'), false)
  assert.equal(counts.isFull('203.0.113.2'), false)
  counts.add('203.0.113.3', 420)
  assert.equal(counts.isFull('203.0.113.2'), true)
  assert.equal(counts.isFull('203.0.113.4'), false, 'an address that uses nothing is never full')
  assert.equal(counts.isFull('2001:db8:0:3::1'), true, 'the /48 uses too much')
  counts.add('203.0.113.1', -500)
  assert.equal(counts.isFull('203.0.113.2'), false)
})
