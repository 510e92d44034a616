import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sampleOf, WHOLE } from '../support/sample.ts'
import { fuzz } from './support/fuzz.ts'

/** A sample on every run, a larger one in a whole run; `npm run fuzz -- contracts 1000000` makes the million. */
const CALLS = sampleOf(2_000, 4)
/** As many looks at all state, however large the sample is. */
const CHECK_EVERY = sampleOf(40, 4)

test('random calls give the results of the model, to the last unit', async (t) => {
  const seed = Number(process.env.SIBYL_TEST_SEED ?? Date.now() % 2 ** 31)
  t.diagnostic(`seed ${seed}`)
  const report = await fuzz({ seed, calls: CALLS, checkEvery: CHECK_EVERY, simulated: 0.5 })
  t.diagnostic(JSON.stringify(report))
  assert.ok(report.calls >= CALLS)
  // A run that mostly rejects, or never does, tests nothing.
  assert.ok(report.settled > report.fills * 0.2, `${report.settled} settled`)
  assert.ok(report.mints > report.settled * 0.05, `${report.mints} mints`)
  assert.ok(report.merges > report.settled * 0.02, `${report.merges} merges`)
  // A sample of 500 calls has between one and forty of them, so their share says nothing there.
  const others = WHOLE ? report.settled * 0.01 : 0
  assert.ok(report.signedByOthers > others, `${report.signedByOthers} by others`)
  assert.ok(Object.keys(report.rejected).length >= 8, Object.keys(report.rejected).join())
})
