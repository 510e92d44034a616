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
 * Number of batches between two checks of all state. It grows with `CALLS`, so that the sample and the whole test make
 * the same number of checks.
 */
const CHECK_EVERY = sampleOf(40, 4)

test('random calls give the same results from the contracts as from a reference model', async (t) => {
  const seed = Number(process.env.SIBYL_TEST_SEED ?? Date.now() % 2 ** 31)
  t.diagnostic(`seed ${seed}`)
  const report = await fuzz({ seed, calls: CALLS, checkEvery: CHECK_EVERY, simulated: 0.5 })
  t.diagnostic(JSON.stringify(report))
  assert.ok(report.calls >= CALLS)
  // The run must settle enough fills of each kind, and must also reject some.
  assert.ok(report.settled > report.fills * 0.2, `${report.settled} settled`)
  assert.ok(report.mints > report.settled * 0.05, `${report.mints} mints`)
  assert.ok(report.merges > report.settled * 0.02, `${report.merges} merges`)
  // In the sample of 500 calls, only 1 to 40 fills have an order that its trader did not sign. Only the whole test
  // requires a minimum fraction.
  const others = WHOLE ? report.settled * 0.01 : 0
  assert.ok(report.signedByOthers > others, `${report.signedByOthers} by others`)
  assert.ok(Object.keys(report.rejected).length >= 8, Object.keys(report.rejected).join())
})
