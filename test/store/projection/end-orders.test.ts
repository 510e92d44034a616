import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { MarketId, OrderHash } from '#domain/ids.ts'
import { ORDERS_ENDED_MAX } from '#domain/limits.ts'
import { closeDatabase, type Database, sqlConnection } from '#store/engine/database.ts'
import { openDatabase } from '#store/open-database.ts'
import { endOrders, marketsToEnd } from '#store/projection/end-orders.ts'
import { project } from '#store/projection/project.ts'
import { onBothDatabases } from '../../support/databases.ts'
import { batch, id, market, order, orderOf, orderRow, START_MS, withStore } from '../batches.ts'

const ORDERS = 2 * ORDERS_ENDED_MAX + 1

async function countOf(database: Database, status: string): Promise<number> {
  const [row] = await sqlConnection(database).execute<{ n: number | string }[]>(
    'select count(*) as n from orders where status = ?',
    [status],
  )
  return Number(row?.n)
}

await onBothDatabases('orders of a closed market end', (databases) => {
  it('orders of a closed market are read as ended at once, while their rows are updated in steps', async () => {
    await withStore(databases, async (database, url) => {
      const other = { market: market('other'), seq: 1, atMs: START_MS }
      await project(database, batch(1, 2, { markets: [other] }))
      const orders = Array.from({ length: ORDERS }, (_, n) => order(`o${n}`))
      const elsewhere = order('elsewhere', { marketId: id<MarketId>('other') })
      const filled = order('filled')
      await project(
        database,
        batch(2, 3, {
          orders: [
            ...orders.map((each) => orderRow(each)),
            orderRow(elsewhere),
            orderRow(filled, { status: 'filled', remaining: 0 }),
          ],
        }),
      )
      assert.deepEqual(await marketsToEnd(database, undefined), { marketIds: [], next: undefined })
      const change = { marketId: id<MarketId>('m'), seq: 9, atMs: START_MS + 9 } as const
      await project(database, batch(3, 4, { marketChanges: [{ ...change, closed: 'expired' }] }))
      assert.equal((await orderOf(database, id<OrderHash>('o0')))?.status, 'market-closed')
      assert.equal(await countOf(database, 'open'), ORDERS + 1, 'no row was touched yet')

      assert.equal(await endOrders(database, change.marketId), true)
      assert.equal(await countOf(database, 'market-closed'), ORDERS_ENDED_MAX)
      // Simulates a restart before all orders of the closed market are marked as ended. The new process must find the
      // market and continue.
      const again = await openDatabase(url)
      try {
        const { marketIds } = await marketsToEnd(again, undefined)
        assert.deepEqual(marketIds, [change.marketId])
        assert.equal(await endOrders(again, change.marketId), true)
        assert.equal(await endOrders(again, change.marketId), false)
        assert.deepEqual((await marketsToEnd(again, undefined)).marketIds, [])
      } finally {
        await closeDatabase(again)
      }
      assert.equal(await countOf(database, 'market-closed'), ORDERS)
      assert.equal(await countOf(database, 'open'), 1)
      assert.equal((await orderOf(database, elsewhere.orderHash))?.status, 'open')
      assert.equal((await orderOf(database, filled.orderHash))?.status, 'filled')
    })
  })
})
