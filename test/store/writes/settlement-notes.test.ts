/**
 * Tests the notes that settlement stores about unsettled trades, such as the number of retries. The notes are saved,
 * replaced, read by trade, and deleted when their trade ends.
 */

import assert from 'node:assert/strict'
import { it } from 'node:test'
import { type MarketId, tradeId } from '#domain/ids.ts'
import { closeDatabase } from '#store/engine/database.ts'
import { openDatabase } from '#store/open-database.ts'
import { notesOf, noteTrades } from '#store/writes/settlement-notes.ts'
import { onBothDatabases } from '../../support/databases.ts'

const idOf = (number: number) => tradeId(`0x${'ab'.repeat(32)}` as MarketId, number, 1)
const note = (number: number) => ({
  ...{ tradeId: idOf(number), reachableMs: 30_000, retries: 2, wastedGas: 2 ** 40 },
})

await onBothDatabases('settlement stores notes about trades', (databases) => {
  it('settlement’s latest note about a trade can be read until the trade has ended', async () => {
    const database = await openDatabase(await databases.migrated())
    try {
      const refusal = { fault: 'seller', reason: 'InsufficientShares' } as const
      await noteTrades(database, { chainId: 1, notes: [note(1), note(2)], ended: [] })
      const later = { ...note(1), reachableMs: 60_000, refusal }
      await noteTrades(database, { chainId: 1, notes: [later], ended: [] })
      const read = (...numbers: number[]) => notesOf(database, { tradeIds: numbers.map(idOf) })
      assert.deepEqual(await read(1, 3), [later])
      assert.deepEqual(await read(), [])
      await noteTrades(database, { chainId: 1, notes: [], ended: [idOf(1), idOf(3)] })
      assert.deepEqual(await read(1, 2, 3), [note(2)])
    } finally {
      await closeDatabase(database)
    }
  })
})
