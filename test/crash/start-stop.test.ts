import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stopAtRandomInstants } from './start-stop.ts'

/** Number of stops. `npm run crash -- start` makes any number. */
const TIMES = 2

test('an exchange that is stopped at any moment of its start stops cleanly, and the next start finds all data', async (t) => {
  const seed = Number(process.env.TEST_SEED ?? Date.now() % 1_000_000)
  t.diagnostic(`seed ${seed}`)
  const report = await stopAtRandomInstants({ times: TIMES, seed, withinMs: 4_000 })
  t.diagnostic(JSON.stringify(report))
  assert.equal(report.stops, TIMES)
})
