import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault } from '#domain/fault.ts'
import { loadAccounts } from '#services/accounts/thread/load-accounts.ts'

/**
 * Makes a database with a checkpoint for each of these partitions. The checkpoints show that the projector has reserved
 * the database for the log.
 */
const reads = (partitions: readonly number[]): Parameters<typeof loadAccounts>[0] => ({
  async openNeeds(_options, take) {
    await take({ checkpoints: partitions.map((partition) => ({ partition, offset: 0 })) as never })
  },
})

test('loading the accounts fails while the database has no checkpoint of the projector', async () => {
  await assert.rejects(
    loadAccounts(reads([]), () => true, 0),
    (error) => error instanceof Fault && error.retryable,
  )
  const { checkpoints } = await loadAccounts(reads([0, 1]), () => true, 0)
  assert.equal(checkpoints.length, 2)
})
