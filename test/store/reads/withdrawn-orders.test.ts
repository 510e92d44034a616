import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { OrderHash, Uint64 } from '#domain/ids.ts'
import { SELL } from '#domain/order.ts'
import { type Database, sqlConnection } from '#store/engine/database.ts'
import { bytesOf } from '#store/engine/hex.ts'
import { project } from '#store/projection/project.ts'
import { marketsToReconcile } from '#store/reads/chain-markets.ts'
import { onBothDatabases } from '../../support/databases.ts'
import {
  address,
  batch,
  CHAIN,
  id,
  order,
  orderRow,
  START_MS,
  trade,
  withStore,
} from '../batches.ts'

const insert = (database: Database, sql: string, values: (Buffer | string | number)[]) =>
  sqlConnection(database).execute(sql, values, 'run')

const withdraw = (database: Database, name: string, trader: string) =>
  insert(
    database,
    `insert into chain_withdrawn_orders
      (chain_id, order_hash, trader, effective_at_sec, block_number, log_index, tx_hash, at_sec)
      values (?, ?, ?, 1, 1, 1, ?, 1)`,
    [CHAIN, bytesOf(id<OrderHash>(name)), bytesOf(address(trader)), bytesOf(id<OrderHash>('tx'))],
  )

const withdrawBelow = (database: Database, nonce: string, trader: string) =>
  insert(
    database,
    `insert into chain_withdrawn_epochs
      (chain_id, trader, before_nonce, effective_at_sec, block_number, log_index, tx_hash, at_sec)
      values (?, ?, ?, 1, 1, 1, ?, 1)`,
    [CHAIN, bytesOf(address(trader)), nonce, bytesOf(id<OrderHash>('tx'))],
  )

await onBothDatabases('orders that were cancelled on chain are found', (databases) => {
  it('an order cancelled on chain is listed for cancelling while it is open or has unsettled fills', async () => {
    await withStore(databases, async (database) => {
      const bobs = { trader: address('bob'), side: SELL } as const
      const filled = { status: 'filled', remaining: 0 } as const
      await project(
        database,
        batch(1, 2, {
          orders: [
            orderRow(order('open')),
            orderRow(order('buy'), filled),
            orderRow(order('settled'), filled),
            orderRow(order('sell', { ...bobs, nonce: '7' as Uint64 }), filled),
            orderRow(order('newer', { ...bobs, nonce: '10' as Uint64 }), filled),
            orderRow(order('nobody', { trader: address('eve') }), filled),
          ],
          trades: [
            trade(3, 0),
            trade(4, 0, { sellOrderHash: id('newer'), buyOrderHash: id('nobody') }),
            trade(5, 0, { buyOrderHash: id('settled'), sellOrderHash: id('newer') }),
          ],
          tradeChanges: [
            {
              tradeId: trade(5, 0).tradeId,
              status: 'confirmed',
              txHash: id('tx'),
              reason: '',
              atMs: START_MS,
            },
          ],
        }),
      )
      const due = async () => {
        const { cancel } = await marketsToReconcile(database, {
          chainId: CHAIN,
          nowSec: 1,
          limit: 9,
        })
        return cancel.map(({ orderHash }) =>
          Buffer.from(orderHash.slice(2), 'hex').toString('latin1').replaceAll('\0', ''),
        )
      }
      assert.deepEqual(await due(), [])
      for (const name of ['open', 'buy', 'settled']) await withdraw(database, name, 'ann')
      await withdraw(database, 'nobody', 'ann')
      assert.deepEqual((await due()).sort(), ['buy', 'open'], 'those of who withdrew them')
      await withdrawBelow(database, '9', 'bob')
      assert.deepEqual((await due()).sort(), ['buy', 'open', 'sell'])
    })
  })
})
