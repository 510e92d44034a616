import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stopAtRandomInstants } from './start-stop.ts'

test('a stop at any instant of the start is clean, and the next start finds everything', async (t) => {
  const seed = Number(process.env.TEST_SEED ?? Date.now() % 1_000_000)
  t.diagnostic(`seed ${seed}`)
  const report = await stopAtRandomInstants({ times: 3, seed, withinMs: 4_000 })
  t.diagnostic(JSON.stringify(report))
  assert.equal(report.stops, 3)
})
