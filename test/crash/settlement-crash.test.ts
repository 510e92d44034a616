import assert from 'node:assert/strict'
import { test } from 'node:test'
import { crashSettlement } from './settlement-crash.ts'

const seed = Number(process.env.TEST_SEED ?? 20_260_915)

test('an exchange that is killed while it settles settles every trade once', async (t) => {
  const report = await crashSettlement({ kills: 10, seed })
  t.diagnostic(JSON.stringify(report))
  assert.equal(report.kills, 10)
  assert.ok(report.confirmed > 0 && report.underWay > 0)
})
