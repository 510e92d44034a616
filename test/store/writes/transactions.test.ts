import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Address } from '#domain/ids.ts'
import type { TransactionRow } from '#domain/transaction.ts'
import { closeDatabase } from '#store/engine/database.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { journalOf, saveTransaction, transactionByHash } from '#store/writes/transactions.ts'
import { onBothDatabases } from '../../support/databases.ts'

const sender = `0x${'ab'.repeat(20)}` as Address
const hash = (digit: string) => `0x${digit.repeat(64)}`

function transaction(nonce: number, changes: Partial<TransactionRow> = {}): TransactionRow {
  return {
    chainId: 31_337,
    sender,
    nonce,
    revision: 1,
    purpose: 'settlement',
    reference: '["Überweisung"]',
    raw: '0x02',
    hashes: [hash(String(nonce))],
    blanks: [],
    maxFeePerGas: String(2n ** 100n),
    maxPriorityFeePerGas: '1',
    state: 'open',
    txHash: '',
    blockNumber: null,
    blockHash: '',
    gasUsed: null,
    error: '',
    signedAtMs: 1,
    updatedAtMs: 2,
    finishedAtMs: null,
    ...changes,
  }
}

await onBothDatabases('the journal stores transactions', (databases) => {
  it('the journal finds a transaction by each of its hashes, and never replaces it by an older revision', async () => {
    const database = await openDatabase(await databases.fresh())
    try {
      await migrate(database)
      const ask = { chainId: 31_337, sender, watchBlocks: 10 }
      assert.deepEqual(await journalOf(database, ask), { rows: [], lastNonce: -1 })
      const row = transaction(0)
      assert.equal(await saveTransaction(database, { row }), true)
      assert.equal(await saveTransaction(database, { row }), true, 'asking again is no conflict')
      assert.deepEqual(await journalOf(database, ask), { rows: [row], lastNonce: 0 })

      const bumped = transaction(0, {
        revision: 3,
        hashes: [hash('0'), hash('a')],
        blanks: [hash('a')],
      })
      assert.equal(await saveTransaction(database, { row: bumped }), true)
      const late = transaction(0, { revision: 2, purpose: 'late' })
      assert.equal(await saveTransaction(database, { row: late }), false)
      for (const txHash of bumped.hashes) {
        assert.deepEqual(await transactionByHash(database, { txHash }), bumped)
      }
      assert.equal(await transactionByHash(database, { txHash: hash('f') }), undefined)

      const ended = (nonce: number, blockNumber: number) =>
        transaction(nonce, {
          state: 'succeeded',
          txHash: hash(String(nonce)),
          blockNumber,
          blockHash: hash('b'),
          gasUsed: 5,
          finishedAtMs: 9,
        })
      for (const each of [ended(1, 80), ended(2, 95), ended(3, 100)]) {
        await saveTransaction(database, { row: each })
      }
      const { rows, lastNonce } = await journalOf(database, ask)
      assert.deepEqual(
        rows.map(({ nonce }) => nonce),
        [0, 2, 3],
      )
      assert.equal(lastNonce, 3)
      assert.deepEqual(rows[1], ended(2, 95))
      const other = { ...ask, sender: `0x${'cd'.repeat(20)}` as Address }
      assert.deepEqual(await journalOf(database, other), { rows: [], lastNonce: -1 })
    } finally {
      await closeDatabase(database)
    }
  })
})
