import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const seed = process.env.TEST_SEED ?? String(Math.floor(Math.random() * 2 ** 31))
const RUN = fileURLToPath(new URL('./quick-day-run.ts', import.meta.url))

test(`a day of quick markets with bad providers and restarts, TEST_SEED=${seed}`, (t) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [RUN, '1', seed], {
    encoding: 'utf8',
  })
  t.diagnostic(stdout.trim())
  assert.equal(status, 0, `${stdout}${stderr}`)
})
