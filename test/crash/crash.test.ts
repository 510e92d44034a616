import assert from 'node:assert/strict'
import { test } from 'node:test'
import { crashRun } from './crash-run.ts'

test('ten kills lose nothing that was answered and double nothing', async (t) => {
  const seed = Number(process.env.TEST_SEED ?? Math.floor(Math.random() * 2 ** 31))
  t.diagnostic(`TEST_SEED=${seed}`)
  const figures = await crashRun({ kills: 10, seed, killsPerFolder: 5 })
  const { kills, answered, lost, duplicated } = figures
  t.diagnostic(`kills ${kills}, answered ${answered}, lost ${lost}, duplicated ${duplicated}`)
  assert.deepEqual({ kills, lost, duplicated }, { kills: 10, lost: 0, duplicated: 0 })
  assert(answered > 0)
})
