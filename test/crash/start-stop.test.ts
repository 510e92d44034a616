import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stopAtRandomInstants } from './start-stop.ts'

/** `npm run crash -- start` makes any number of stops. */
const TIMES = 2

test('a stop at any instant of the start is clean, and the next start finds all data', async (t) => {
  const seed = Number(process.env.TEST_SEED ?? Date.now() % 1_000_000)
  t.diagnostic(`seed ${seed}`)
  const report = await stopAtRandomInstants({ times: TIMES, seed, withinMs: 4_000 })
  t.diagnostic(JSON.stringify(report))
  assert.equal(report.stops, TIMES)
})
