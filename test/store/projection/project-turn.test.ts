import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { OrderHash } from '#domain/ids.ts'
import { PROJECTION_ROWS_MAX } from '#domain/limits.ts'
import type { Database } from '#store/engine/database.ts'
import { checkpoints } from '#store/projection/checkpoints.ts'
import { makeTurnProjector } from '#store/projection/project-turn.ts'
import type { ProjectionBatch } from '#store/projection/rows.ts'
import { chainStats } from '#store/reads/stats.ts'
import { onBothDatabases } from '../../support/databases.ts'
import {
  batch,
  CHAIN,
  id,
  order,
  orderOf,
  orderRow,
  START_MS,
  trade,
  withStore,
} from '../batches.ts'

/**
 * Returns one batch for each of two partitions. The second is refused, because it changes an order that does not exist.
 */
const contradictory = (first: Partial<ProjectionBatch>): [ProjectionBatch, ProjectionBatch] => {
  const orderHash = id<OrderHash>('nowhere')
  const change = { orderHash, status: 'cancelled', remaining: 1, seq: 9, atMs: START_MS } as const
  return [batch(1, 2, first), batch(0, 1, { partition: 1, orderChanges: [change] })]
}

const offsets = async (database: Database) =>
  (await checkpoints(database)).map(({ offset }) => offset)

await onBothDatabases('several batches are written in one transaction', (databases) => {
  it('batches of several partitions are written together, even if one of them had already been written', async () => {
    await withStore(databases, async (database) => {
      const write = makeTurnProjector(database)
      const first = batch(1, 2, { orders: [orderRow(order('a'))], trades: [trade(3, 0)] })
      const second = { partition: 1, orders: [orderRow(order('b'))], trades: [trade(4, 0)] }
      const together = await Promise.all([write(first), write(batch(0, 7, second))])
      assert.deepEqual(together, [
        { written: 'applied', offset: 2 },
        { written: 'applied', offset: 7 },
      ])
      const next = batch(7, 8, { partition: 1, orders: [orderRow(order('c'))] })
      assert.deepEqual(await Promise.all([write(first), write(next)]), [
        { written: 'already', offset: 2 },
        { written: 'applied', offset: 8 },
      ])
      for (const name of ['a', 'b', 'c']) {
        assert.equal((await orderOf(database, id(name)))?.status, 'open')
      }
      // Both batches brought the same two traders.
      const { totalTraders } = await chainStats(database, { chainId: CHAIN, nowMs: START_MS })
      assert.equal(totalTraders, 2)
    })
  })

  it('if the database refuses one of several batches, the other batches are still written completely', async () => {
    await withStore(databases, async (database) => {
      const write = makeTurnProjector(database)
      const batches = contradictory({ orders: [orderRow(order('a'))] })
      const [first, second] = await Promise.allSettled(batches.map(write))
      assert.deepEqual(first, {
        status: 'fulfilled',
        value: { written: 'applied', offset: 2 },
      })
      assert(second?.status === 'rejected')
      assert.equal(second.reason.code, 'STORE_INCONSISTENT')
      assert.deepEqual(await offsets(database), [2, 0])
      assert.equal((await orderOf(database, id('a')))?.status, 'open')
    })
  })

  it('batches that are too large for one shared transaction are written in several transactions', async () => {
    await withStore(databases, async (database) => {
      const orders = Array.from({ length: PROJECTION_ROWS_MAX }, (_, n) => orderRow(order(`a${n}`)))
      const ends = await Promise.allSettled(
        contradictory({ orders }).map(makeTurnProjector(database)),
      )
      assert.deepEqual(
        ends.map(({ status }) => status),
        ['fulfilled', 'rejected'],
      )
      assert.deepEqual(await offsets(database), [2, 0])
    })
  })
})
