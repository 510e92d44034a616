import assert from 'node:assert/strict'
import { test } from 'node:test'
import { backoff } from '#domain/backoff.ts'

test('a retry pause doubles with every failure, up to its limit', () => {
  const pauses = [0, 1, 2, 3, 4, 5].map((failures) => backoff(100, 1_000, failures))
  assert.deepEqual(pauses, [100, 200, 400, 800, 1_000, 1_000])
})

test('after a million failures, the retry pause still equals its limit', () => {
  assert.equal(backoff(5, 60_000, 1_000_000), 60_000)
  assert.equal(backoff(0, 60_000, 1_000_000), 0)
  assert.equal(backoff(5_000, 1_000, 0), 1_000)
})
