import assert from 'node:assert/strict'
import { test } from 'node:test'
import { WHOLE } from '../support/sample.ts'
import { crashRun, type KillKind } from './crash-run.ts'

/**
 * Kills the exchange once in each way, in one data folder. The seed decides whether the folder's log is truncated. `npm
 * run test:whole` uses two folders: one with truncation and one without. `npm run crash` draws kinds and instants at
 * random.
 */
const KINDS: readonly KillKind[] = ['loaded', 'settled', 'starting']
const FOLDERS = WHOLE ? 2 : 1

test('an exchange that is killed in any way loses no answered request and executes no request twice', async (t) => {
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
