import assert from 'node:assert/strict'
import { test } from 'node:test'
import { crashSettlement, killInEachStage } from './settlement-crash.ts'

// Each stage of a settlement every time, another point of it by chance: the run has them all, and
// test/settlement has them in one process.
test('an exchange that is killed while it settles settles every trade once', async (t) => {
  const seed = Number(process.env.TEST_SEED ?? Math.floor(Math.random() * 2 ** 31))
  t.diagnostic(`TEST_SEED=${seed}`)
  const points = killInEachStage(seed)
  const report = await crashSettlement({ points, seed })
  t.diagnostic(JSON.stringify({ points, ...report }))
  assert.equal(report.kills, 3)
  assert.equal(report.inTime, 3, 'each came at its instant')
  assert.ok(report.confirmed > 0 && report.underWay > 0)
})
