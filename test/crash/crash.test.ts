import assert from 'node:assert/strict'
import { test } from 'node:test'
import { crashRun, type KillKind } from './crash-run.ts'

/** Of each kind one, in a folder without truncation and in one with it. `npm run crash` draws them. */
const KINDS: readonly KillKind[] = ['loaded', 'settled', 'starting']

test('kills of every kind lose nothing that was answered and double nothing', async (t) => {
  const seed = Number(process.env.TEST_SEED ?? Math.floor(Math.random() * 2 ** 31))
  t.diagnostic(`TEST_SEED=${seed}`)
  const figures = await crashRun({
    kills: 2 * KINDS.length,
    seed,
    killsPerFolder: KINDS.length,
    kinds: KINDS,
  })
  t.diagnostic(JSON.stringify(figures))
  const { answered, ...others } = figures
  assert.deepEqual(others, {
    kills: 6,
    lost: 0,
    duplicated: 0,
    killedWhileStarting: 2,
    sameStates: 2,
  })
  assert(answered > 0)
})
