import assert from 'node:assert/strict'
import { test } from 'node:test'
import { WHOLE } from '../support/sample.ts'
import { crashRun, type KillKind } from './crash-run.ts'

/**
 * Of each kind one, in a folder with truncation or in one without it, which is drawn, and with
 * `npm run test:whole` in both. `npm run crash` draws kinds and instants.
 */
const KINDS: readonly KillKind[] = ['loaded', 'settled', 'starting']
const FOLDERS = WHOLE ? 2 : 1

test('kills of every kind lose nothing that was answered, and duplicate nothing', async (t) => {
  const seed = Number(process.env.TEST_SEED ?? Math.floor(Math.random() * 2 ** 31))
  t.diagnostic(`TEST_SEED=${seed}`)
  const figures = await crashRun({
    kills: FOLDERS * KINDS.length,
    seed,
    killsPerFolder: KINDS.length,
    kinds: KINDS,
    truncatesFirst: seed % 2 === 1,
  })
  t.diagnostic(JSON.stringify(figures))
  const { answered, ...others } = figures
  assert.deepEqual(others, {
    kills: FOLDERS * KINDS.length,
    lost: 0,
    duplicated: 0,
    killedWhileStarting: FOLDERS,
    sameStates: FOLDERS,
  })
  assert(answered > 0)
})
