import assert from 'node:assert/strict'
import { test } from 'node:test'
import { crashOverHttp } from './http-crash.ts'

const seed = Number(process.env.TEST_SEED ?? 20_260_401)

/** Number of kills. The second run finds the data of the first. `npm run crash -- http` makes any number of kills. */
const KILLS = 2

test('an exchange that is killed under load keeps every answered order', async (t) => {
  const report = await crashOverHttp({
    kills: KILLS,
    seed,
    environment: { SIBYL_FRONT_THREADS: '2', SIBYL_MARKET_THREADS: '2' },
  })
  const { recoveriesMs: _, ...figures } = report
  t.diagnostic(JSON.stringify(figures))
  assert.equal(report.kills, KILLS)
  assert.ok(report.accepted > 0 && report.unanswered > 0 && report.trades > 0)
})
