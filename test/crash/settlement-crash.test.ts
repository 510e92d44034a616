import assert from 'node:assert/strict'
import { test } from 'node:test'
import { crashSettlement, killsByStage } from './settlement-crash.ts'

// Kills the exchange at two random points: one while a transaction is being sent, and one before or after
// that. `npm run crash -- settlement` uses all points; test/services/settlement covers them within one
// process.
test('an exchange that is killed while it settles trades settles every trade once', async (t) => {
  const seed = Number(process.env.TEST_SEED ?? Math.floor(Math.random() * 2 ** 31))
  t.diagnostic(`TEST_SEED=${seed}`)
  const points = killsByStage(seed)
  const report = await crashSettlement({ points, seed })
  t.diagnostic(JSON.stringify({ points, ...report }))
  assert.equal(report.kills, points.length)
  assert.equal(report.inTime, points.length, 'each came at its instant')
  assert.ok(report.confirmed > 0 && report.underWay > 0)
})
