import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sampleOf, WHOLE } from '../support/sample.ts'
import { fuzz } from './support/fuzz.ts'

/**
 * Number of calls: a sample by default, more with `npm run test:whole`. `npm run fuzz -- contracts 1000000` makes a
 * million calls.
 */
const CALLS = sampleOf(2_000, 4)
/**
 * Number of calls between two checks of all state. It grows with the sample, so that the number of checks stays the
 * same.
 */
const CHECK_EVERY = sampleOf(40, 4)

test('random calls of the contracts give exactly the results of a reference model', async (t) => {
  const seed = Number(process.env.SIBYL_TEST_SEED ?? Date.now() % 2 ** 31)
  t.diagnostic(`seed ${seed}`)
  const report = await fuzz({ seed, calls: CALLS, checkEvery: CHECK_EVERY, simulated: 0.5 })
  t.diagnostic(JSON.stringify(report))
  assert.ok(report.calls >= CALLS)
  // If almost all fills were rejected, or no fill was rejected, the run would test nothing.
  assert.ok(report.settled > report.fills * 0.2, `${report.settled} settled`)
  assert.ok(report.mints > report.settled * 0.05, `${report.mints} mints`)
  assert.ok(report.merges > report.settled * 0.02, `${report.merges} merges`)
  // A small sample of 500 calls has only 1 to 40 fills signed by others, too few to require a minimum fraction.
  const others = WHOLE ? report.settled * 0.01 : 0
  assert.ok(report.signedByOthers > others, `${report.signedByOthers} by others`)
  assert.ok(Object.keys(report.rejected).length >= 8, Object.keys(report.rejected).join())
})
