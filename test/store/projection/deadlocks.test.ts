import assert from 'node:assert/strict'
import { it } from 'node:test'
import { Fault } from '#domain/fault.ts'
import { closeDatabase, type Database, sqlConnection, transact } from '#store/engine/database.ts'
import { openDatabase } from '#store/open-database.ts'
import { DEADLOCKS_MAX, project } from '#store/projection/project.ts'
import { chainStats } from '#store/reads/stats.ts'
import { onServer, onServerDatabase } from '../../support/databases.ts'
import { eventually } from '../../support/eventually.ts'
import { batch, CHAIN, id, order, orderRow, START_MS, trade, withStore } from '../batches.ts'

/** Waits until a transaction in this database waits for a row that another transaction has locked. */
async function untilLockWait(url: string): Promise<void> {
  await eventually(async () => {
    const waiting = await onServer(
      `select 1 from information_schema.innodb_trx t
        join information_schema.processlist p on p.id = t.trx_mysql_thread_id
        where t.trx_state = 'LOCK WAIT' and p.db = '${new URL(url).pathname.slice(1)}'`,
    )
    assert.equal(waiting.length, 1)
  })
}

await onServerDatabase('deadlocks in the database do not stop the projection', (databases) => {
  it('a batch that the database aborts for a deadlock is repeated automatically and written once', async () => {
    await withStore(databases, async (database, url) => {
      await project(database, batch(1, 2, { trades: [trade(3, 0)] }))
      const rival = await openDatabase(url)
      try {
        const written = await transact(rival, async (transaction, connection) => {
          const run = (sql: string) => connection.execute(sql, [], 'all', transaction)
          // To end a deadlock, the server rolls back the transaction that changed fewer rows. The rival changes many
          // rows, so the server rolls back the batch.
          const rows = Array.from({ length: 500 }, (_, n) => `(9, unhex(lpad(hex(${n}), 40, '0')))`)
          await run(`insert into traders (chain_id, address) values ${rows.join(', ')}`)
          await run('select * from market_stats for update')
          const more = { orders: [orderRow(order('a'))], trades: [trade(4, 0)] }
          const projecting = project(database, batch(2, 3, more))
          await untilLockWait(url)
          await run('select * from checkpoints where log_partition = 0 for update')
          return { projecting }
        })
        assert.deepEqual(await written.projecting, { written: 'applied', offset: 3 })
        const { totalTrades } = await chainStats(database, { chainId: CHAIN, nowMs: START_MS })
        assert.equal(totalTrades, 2)
        const orders = await sqlConnection(database).execute(
          `select 1 from orders where order_hash = ${id('a')}`,
        )
        assert.equal(orders.length, 1)
      } finally {
        await closeDatabase(rival)
      }
    })
  })
})

it('a batch that keeps being aborted by deadlocks fails with the retryable fault STORE_UNAVAILABLE', async () => {
  let runs = 0
  const connection = {
    async transactional() {
      runs++
      throw Object.assign(new Error('Deadlock found'), { code: 'ER_LOCK_DEADLOCK', errno: 1213 })
    },
  }
  const orm = { em: { getConnection: () => connection } }
  await assert.rejects(project({ orm } as unknown as Database, batch(1, 2)), (error) => {
    assert(error instanceof Fault)
    assert.deepEqual([error.code, error.retryable], ['STORE_UNAVAILABLE', true])
    return true
  })
  assert.equal(runs, DEADLOCKS_MAX)
})
