import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeRepeatedErrors } from '#http/repeated-errors.ts'
import { simulatedClock } from '../support/simulated-clock.ts'

function start() {
  const clock = simulatedClock(0)
  const lines: object[] = []
  const errors = makeRepeatedErrors({ error: (fields) => lines.push(fields) }, clock)
  return { clock, lines, tell: (error: unknown) => errors.tell(error, {}, 'it failed') }
}

test('a repeated error is logged once per interval, with the number of its occurrences', () => {
  const { clock, lines, tell } = start()
  const error = new Error('away')
  for (let n = 0; n < 1_000; n++) tell(error)
  assert.deepEqual(lines, [{ err: error }])
  clock.advance(5_000)
  tell(error)
  assert.deepEqual(lines.slice(1), [{ moreLikeIt: 999, err: error }])
})

test('each new error is logged at once, up to about a hundred different errors', () => {
  const { lines, tell } = start()
  tell(new Error('one'))
  tell(new Error('two'))
  assert.equal(lines.length, 2)
  for (let n = 0; n < 1_000; n++) tell(new Error(`number ${n}`))
  assert.equal(lines.length, 101)
})
