import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { OrderHash } from '#domain/ids.ts'
import { type Database, sqlConnection } from '#store/engine/database.ts'
import { bytesOf } from '#store/engine/hex.ts'
import { withdrawers, withdrawnBy } from '#store/reads/withdrawn.ts'
import { onBothDatabases } from '../../support/databases.ts'
import { address, CHAIN, id, withStore } from '../batches.ts'

const PLACE = 'chain_id, trader, effective_at_sec, block_number, log_index, tx_hash, at_sec'

async function insert(database: Database, table: string, name: string, value: Buffer | string) {
  blocks++
  const place = [CHAIN, bytesOf(address('ann')), 9, blocks, 0, bytesOf(id('tx')), 9]
  await sqlConnection(database).execute(
    `insert into ${table} (${PLACE}, ${name}) values (?, ?, ?, ?, ?, ?, ?, ?)`,
    [...place, value],
  )
}
let blocks = 0

await onBothDatabases('cancellations on chain are stored', (databases) => {
  it('a trader’s on-chain cancellations are returned as the highest nonce limit and the individually cancelled orders', async () => {
    await withStore(databases, async (database) => {
      for (const nonce of ['999', '18446744073709551615', '1000']) {
        await insert(database, 'chain_withdrawn_epochs', 'before_nonce', nonce)
      }
      const hashes = [id('one'), id('two')] as OrderHash[]
      for (const hash of hashes) {
        await insert(database, 'chain_withdrawn_orders', 'order_hash', bytesOf(hash))
      }
      const asked = { chainId: CHAIN, trader: address('ann'), orderHash: hashes[1]!, ordersMax: 1 }
      const found = await withdrawnBy(database, asked)
      assert.equal(found.beforeNonce, '18446744073709551615')
      assert.deepEqual([found.orderHashes.length, found.isWithdrawn], [1, true])
      const others = { ...asked, trader: address('bob') }
      const nothing = { beforeNonce: '0', orderHashes: [], isWithdrawn: false }
      assert.deepEqual(await withdrawnBy(database, others), nothing)
      assert.deepEqual(await withdrawnBy(database, { ...asked, chainId: CHAIN + 1 }), nothing)
      assert.deepEqual(await withdrawers(database, { chainId: CHAIN, limit: 5 }), [address('ann')])
    })
  })
})
