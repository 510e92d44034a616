import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { WHOLE } from '../../../support/sample.ts'

/**
 * Seeds of two days that failed before. After an outage of half an hour, only one provider is available, and this
 * provider reports wrong prices. On the first day this happens in the first hour, on the second day in the evening.
 */
const KNOWN = [{ seed: '323641', hours: 2 }, ...(WHOLE ? [{ seed: '321828583', hours: 24 }] : [])]
/** The beginning of a random day; `npm run soak -- quick-days` runs any number of whole days. */
const DRAWN = { seed: String(Math.floor(Math.random() * 2 ** 31)), hours: 3 }
const given = process.env.TEST_SEED?.split(',').map((seed) => ({ seed, hours: 24 }))
const RUN = fileURLToPath(new URL('./quick-day-run.ts', import.meta.url))

for (const { seed, hours } of given ?? [...KNOWN, DRAWN]) {
  const name = `${hours} hours of quick markets with bad providers and restarts, TEST_SEED=${seed}`
  test(name, (t) => {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [...process.execArgv, RUN, '1', seed, `${hours}`],
      {
        encoding: 'utf8',
      },
    )
    t.diagnostic(stdout.trim())
    assert.equal(status, 0, `${stdout}${stderr}`)
  })
}
