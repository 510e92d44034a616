import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Histogram } from '../../loadtest/histogram.ts'
import { withSeeds } from '../support/random.ts'

function exact(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.max(1, Math.ceil(q * sorted.length)) - 1]!
}

test('the quantiles of a histogram are within a thirtieth of the true values', () => {
  withSeeds([1, 2, 3], (random) => {
    const histogram = new Histogram()
    const values = Array.from({ length: 5_000 }, () => 10 ** (random.next() * 6 - 2))
    for (const value of values) histogram.recordMs(value)
    for (const q of [0, 0.01, 0.5, 0.9, 0.99, 0.999, 1]) {
      const [found, true_] = [histogram.quantileMs(q), exact(values, q)]
      assert(Math.abs(found - true_) <= true_ / 30 + 0.001, `${q}: ${found}, not ${true_}`)
    }
    assert.equal(histogram.maxMs, Math.round(Math.max(...values) * 1_000) / 1_000)
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length
    assert(Math.abs(histogram.meanMs / mean - 1) < 0.01)
  })
})

test('the sum of two histograms equals a histogram of all values, also after conversion to JSON', () => {
  withSeeds([4], (random) => {
    const [whole, some, others] = [new Histogram(), new Histogram(), new Histogram()]
    for (let at = 0; at < 2_000; at++) {
      const value = random.next() * 100
      whole.recordMs(value)
      const part = random.chance(0.3) ? some : others
      part.recordMs(value)
    }
    const again = Histogram.from(JSON.parse(JSON.stringify(some)))
    again.add(others)
    assert.deepEqual(again.toJSON(), whole.toJSON())
  })
})

test('a histogram has a bucket for the smallest and for the largest value, and an empty histogram has no quantiles', () => {
  const histogram = new Histogram()
  assert(Number.isNaN(histogram.quantileMs(0.5)) && Number.isNaN(histogram.maxMs))
  assert.deepEqual(Histogram.from(histogram.toJSON()).toJSON(), histogram.toJSON())
  for (const value of [-1, 0, 0.063, 0.064, 5e6, Number.MAX_VALUE]) histogram.recordMs(value)
  assert.equal(histogram.count, 6)
  assert.equal(histogram.quantileMs(0), 0)
  assert.equal(histogram.quantileMs(1), histogram.maxMs)
})
