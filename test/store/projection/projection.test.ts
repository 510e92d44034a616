import assert from 'node:assert/strict'
import { once } from 'node:events'
import { it } from 'node:test'
import { Worker } from 'node:worker_threads'
import { Fault } from '#domain/fault.ts'
import type { MarketId, Uint64, Uint256 } from '#domain/ids.ts'
import { costCeil, type Price, type Shares, SIZE_MAX } from '#domain/money.ts'
import { NO, SELL } from '#domain/order.ts'
import { closeDatabase, type Database, sqlConnection } from '#store/engine/database.ts'
import { migrationsOf } from '#store/migrations/list.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { checkpoints, claimLog } from '#store/projection/checkpoints.ts'
import { project } from '#store/projection/project.ts'
import type { ProjectionBatch } from '#store/projection/rows.ts'
import { marketById } from '#store/reads/markets.ts'
import { ordersByHash } from '#store/reads/orders.ts'
import { recentTrades } from '#store/reads/trades.ts'
import { onBothDatabases } from '../../support/databases.ts'
import {
  address,
  batch,
  CHAIN,
  id,
  LOG_ID,
  market,
  opening,
  order,
  orderOf,
  orderRow,
  START_MS,
  trade,
  tradeOf,
  withStore,
} from '../batches.ts'

const MIGRATIONS = migrationsOf('sqlite').map(({ name }) => name)

const isFault = (code: string) => (error: unknown) => {
  assert(error instanceof Fault, String(error))
  assert.equal(error.code, code, error.message)
  assert.equal(error.retryable, false)
  return true
}

async function rowCounts(database: Database): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const table of ['markets', 'orders', 'trades']) {
    const rows = await sqlConnection(database).execute<{ n: number }[]>(
      `select count(*) as n from ${table}`,
    )
    counts[table] = Number(rows[0]?.n)
  }
  return counts
}

await onBothDatabases('the projection stores the events of a log', (databases) => {
  it('the tables of the projection are created once, and creating them again has no effect', async () => {
    const database = await openDatabase(await databases.fresh())
    try {
      assert.deepEqual(await migrate(database), MIGRATIONS)
      assert.deepEqual(await migrate(database), [])
      assert.deepEqual(await rowCounts(database), { markets: 0, orders: 0, trades: 0 })
    } finally {
      await closeDatabase(database)
    }
  })

  it('a migration that was killed before it was recorded is completed by the next run', async () => {
    await withStore(databases, async (database) => {
      await sqlConnection(database).execute('delete from migrations')
      assert.deepEqual(await migrate(database), MIGRATIONS)
      assert.deepEqual(await rowCounts(database), { markets: 1, orders: 0, trades: 0 })
    })
  })

  it('bytes of one row never appear in a neighbouring row', async () => {
    await withStore(databases, async (database) => {
      const placed = ['a', 'b', 'c', 'd'].map((name, n) =>
        order(name, {
          // Gives some neighbouring rows equal values, and others different values.
          trader: address(n < 2 ? 'ann' : 'bob'),
          signature: `0x${String(n % 3).repeat(128)}1b`,
        }),
      )
      await project(database, batch(1, 2, { orders: placed.map((each) => orderRow(each)) }))
      for (const { orderHash, trader, signature } of placed) {
        const found = await orderOf(database, orderHash)
        assert.deepEqual([found?.trader, found?.signature], [trader, signature])
      }
    })
  })

  it('markets, orders and trades that the projection stores are read back unchanged', async () => {
    await withStore(databases, async (database) => {
      const words = market('words', {
        question: 'Überraschung? 🦉 "quotes" \'single\' \\ back\\\\slash ?',
        description: `first line\nsecond line ${'x'.repeat(70_000)}`,
        category: 'defi',
        quick: true,
        matching: 'complementary',
      })
      const permitted = order('permitted', {
        side: SELL,
        outcome: NO,
        price: 1 as Price,
        permit: {
          nonce: '18446744073709551615' as Uint64,
          value: (2n ** 256n - 1n).toString() as Uint256,
          deadline: '1999999999' as Uint64,
          v: 28,
          r: id('r'),
          s: id('s'),
        },
      })
      const fill = trade(7, 3, { price: 333_333 as Price, size: 10 as Shares, kind: 'mint' })
      await project(
        database,
        batch(1, 8, {
          markets: [{ market: words, seq: 1, atMs: START_MS + 5 }],
          orders: [orderRow(permitted, { matches: 4, remaining: 17, seq: 7, atMs: START_MS + 9 })],
          trades: [fill],
        }),
      )
      assert.deepEqual(await marketById(database, words.id), {
        ...words,
        openedAtMs: START_MS + 5,
        closeReason: null,
        closedAtMs: null,
      })
      assert.deepEqual(await orderOf(database, permitted.orderHash), {
        ...permitted,
        chainId: CHAIN,
        status: 'open',
        remaining: 17,
        matches: 4,
        placedAtMs: START_MS,
        updatedAtMs: START_MS + 9,
        seq: 7,
      })
      assert.deepEqual(await tradeOf(database, fill.tradeId), {
        ...fill,
        chainId: CHAIN,
        cost: 4,
        status: 'matched',
        txHash: '',
        reason: '',
        attempts: 0,
        failedAtMs: null,
        updatedAtMs: fill.matchedAtMs,
      })
      assert.equal(await orderOf(database, id('nobody')), undefined)
      assert.equal(await tradeOf(database, trade(99, 0).tradeId), undefined)
      assert.equal(await marketById(database, id('nowhere')), undefined)
      assert.deepEqual(await ordersByHash(database, []), [])
    })
  })

  it('the projection stores the largest amounts, nonces and expirations exactly', async () => {
    await withStore(databases, async (database) => {
      const uint64Max = '18446744073709551615' as Uint64
      const size = SIZE_MAX as Shares
      const price = 999_999 as Price
      const largest = order('largest', { size, price, nonce: uint64Max, expiration: uint64Max })
      const next = order('next', { size: (SIZE_MAX - 1) as Shares })
      const fill = trade(3, 0, { size, price })
      await project(
        database,
        batch(1, 2, { orders: [orderRow(largest), orderRow(next)], trades: [fill] }),
      )
      const found = await orderOf(database, largest.orderHash)
      assert.equal(found?.size, 9_007_199_254_740_991)
      assert.equal(found?.remaining, 9_007_199_254_740_991)
      assert.equal(found?.nonce, '18446744073709551615')
      assert.equal(found?.expiration, '18446744073709551615')
      assert.equal((await orderOf(database, next.orderHash))?.size, 9_007_199_254_740_990)
      assert.equal((await tradeOf(database, fill.tradeId))?.cost, costCeil(price, size))
      const stored = await sqlConnection(database).execute<{ text: string; sec: number }[]>(
        databases.dialect === 'sqlite'
          ? 'select cast(size_e6 as text) as text, expires_at_sec as sec from orders where order_hash = ?'
          : 'select cast(size_e6 as char) as text, expires_at_sec as sec from orders where order_hash = ?',
        [Buffer.from(largest.orderHash.slice(2), 'hex')],
      )
      assert.equal(stored[0]?.text, '9007199254740991')
      assert.equal(Number(stored[0]?.sec), Number.MAX_SAFE_INTEGER)
      // Checks large numbers in changes, too, because changes and new rows are written by different statements.
      await project(
        database,
        batch(2, 3, {
          orderChanges: [
            {
              orderHash: next.orderHash,
              status: 'open',
              remaining: SIZE_MAX - 2,
              seq: SIZE_MAX,
              atMs: START_MS,
            },
          ],
        }),
      )
      const changed = await orderOf(database, next.orderHash)
      assert.equal(changed?.remaining, 9_007_199_254_740_989)
      assert.equal(changed?.seq, 9_007_199_254_740_991)
    })
  })

  it('a later batch changes the order and trade rows that an earlier batch wrote', async () => {
    await withStore(databases, async (database) => {
      const maker = order('maker')
      const other = order('other')
      const fill = trade(4, 0)
      await project(
        database,
        batch(1, 4, { orders: [orderRow(maker), orderRow(other)], trades: [fill] }),
      )
      await project(
        database,
        batch(4, 9, {
          orderChanges: [
            { orderHash: maker.orderHash, status: 'open', remaining: 5, seq: 5, atMs: START_MS },
            {
              orderHash: maker.orderHash,
              status: 'cancelled',
              remaining: 5,
              seq: 6,
              atMs: START_MS + 6,
            },
          ],
          tradeChanges: [
            {
              tradeId: fill.tradeId,
              status: 'submitted',
              txHash: id('tx'),
              reason: '',
              atMs: START_MS + 7,
            },
          ],
        }),
      )
      await project(
        database,
        batch(9, 10, {
          tradeChanges: [
            {
              tradeId: fill.tradeId,
              status: 'failed',
              txHash: '',
              reason: `it's ${'🦉'.repeat(2_000)}`,
              atMs: START_MS + 8,
            },
          ],
        }),
      )
      const closed = await orderOf(database, maker.orderHash)
      assert.equal(closed?.status, 'cancelled')
      assert.equal(closed?.remaining, 5)
      assert.equal(closed?.seq, 6)
      assert.equal(closed?.updatedAtMs, START_MS + 6)
      assert.equal((await orderOf(database, other.orderHash))?.status, 'open')
      const failed = await tradeOf(database, fill.tradeId)
      assert.equal(failed?.status, 'failed')
      assert.equal(failed?.txHash, id('tx'))
      assert.equal(failed?.attempts, 1)
      assert.equal(failed?.failedAtMs, START_MS + 8)
      assert.match(failed?.reason ?? '', /^it's 🦉/)
    })
  })

  it('when a market closes, the projection ends the market’s resting orders, and no orders of other markets', async () => {
    await withStore(databases, async (database) => {
      const rest = order('rest')
      const filled = order('filled')
      const elsewhere = order('elsewhere', { marketId: id<MarketId>('other') })
      await project(
        database,
        batch(1, 2, {
          markets: [{ market: market('other'), seq: 1, atMs: START_MS }],
          orders: [
            orderRow(rest),
            orderRow(filled, { status: 'filled', remaining: 0 }),
            orderRow(elsewhere),
          ],
        }),
      )
      const late = order('late')
      await project(
        database,
        batch(2, 3, {
          orders: [orderRow(late)],
          marketChanges: [{ marketId: id('m'), closed: 'expired', seq: 9, atMs: START_MS + 9 }],
        }),
      )
      const statusOf = async (hash: typeof rest.orderHash) =>
        (await orderOf(database, hash))?.status
      assert.equal(await statusOf(rest.orderHash), 'market-closed')
      assert.equal(await statusOf(late.orderHash), 'market-closed')
      assert.equal(await statusOf(filled.orderHash), 'filled')
      assert.equal(await statusOf(elsewhere.orderHash), 'open')
      const closed = await marketById(database, id('m'))
      assert.equal(closed?.closeReason, 'expired')
      assert.equal(closed?.closedAtMs, START_MS + 9)
    })
  })

  it('the projection writes a batch of thousands of rows and changes', async () => {
    await withStore(databases, async (database) => {
      const orders = Array.from({ length: 1_203 }, (_, n) =>
        orderRow(order(`o${n}`), { seq: n + 2 }),
      )
      const trades = Array.from({ length: 1_101 }, (_, n) => trade(n + 2, 0))
      await project(database, batch(1, 2, { orders, trades }))
      await project(
        database,
        batch(2, 3, {
          orderChanges: orders.map(({ order: { orderHash } }, n) => ({
            orderHash,
            status: 'filled' as const,
            remaining: 0,
            seq: 5_000 + n,
            atMs: START_MS,
          })),
          tradeChanges: trades.map(({ tradeId }) => ({
            tradeId,
            status: 'confirmed' as const,
            txHash: id('tx'),
            reason: '',
            atMs: START_MS,
          })),
        }),
      )
      assert.deepEqual(await rowCounts(database), { markets: 1, orders: 1_203, trades: 1_101 })
      const open = "select order_hash from orders where status = 'open' limit 10"
      assert.deepEqual(await sqlConnection(database).execute(open), [])
      assert.equal((await orderOf(database, id('o1202')))?.seq, 6_202)
    })
  })

  it('the projection does not apply a batch twice', async () => {
    await withStore(databases, async (database) => {
      const fill = trade(3, 0)
      const first = batch(1, 5, { orders: [orderRow(order('a'))], trades: [fill] })
      const second = batch(5, 6, {
        tradeChanges: [
          { tradeId: fill.tradeId, status: 'submitted', txHash: id('tx'), reason: '', atMs: 1 },
        ],
      })
      assert.equal((await project(database, first)).written, 'applied')
      assert.equal((await project(database, first)).written, 'already')
      assert.equal((await project(database, second)).written, 'applied')
      assert.equal((await project(database, second)).written, 'already')
      assert.equal((await project(database, first)).written, 'already')
      assert.equal((await tradeOf(database, fill.tradeId))?.attempts, 1)
      assert.deepEqual(await checkpoints(database), [
        { partition: 0, offset: 6 },
        { partition: 1, offset: 0 },
      ])
    })
  })

  it('the projection applies a batch once when two writers send it at the same time', async () => {
    await withStore(databases, async (database, url) => {
      const batches = Array.from({ length: 40 }, (_, n) =>
        batch(n + 1, n + 2, { trades: [trade(n + 2, 0)] }),
      )
      const rivals = [1, 2].map(
        () => new Worker(new URL('./rival-writer.ts', import.meta.url), { workerData: { url } }),
      )
      const gone = rivals.map((rival) => once(rival, 'exit'))
      await Promise.all(rivals.map((rival) => once(rival, 'message')))
      const answers = await Promise.all(
        rivals.map(async (rival) => {
          rival.postMessage(batches)
          const [said] = await once(rival, 'message')
          return said as string[]
        }),
      )
      await Promise.all(gone)
      for (let n = 0; n < batches.length; n++) {
        assert.deepEqual(answers.map((said) => said[n]).sort(), ['already', 'applied'])
      }
      assert.deepEqual(await rowCounts(database), { markets: 1, orders: 0, trades: 40 })
    })
  })

  it('the projection keeps a checkpoint per partition', async () => {
    await withStore(databases, async (database) => {
      await project(database, batch(1, 4))
      await project(database, batch(0, 9, { partition: 1 }))
      assert.deepEqual(await checkpoints(database), [
        { partition: 0, offset: 4 },
        { partition: 1, offset: 9 },
      ])
    })
  })

  it('a batch that overlaps an earlier batch writes nothing, and returns the current offset', async () => {
    await withStore(databases, async (database) => {
      await project(database, batch(1, 5))
      const longer = batch(1, 7, { trades: [trade(6, 0)] })
      assert.deepEqual(await project(database, longer), { written: 'already', offset: 5 })
      assert.deepEqual(await rowCounts(database), { markets: 1, orders: 0, trades: 0 })
      assert.equal((await checkpoints(database))[0]?.offset, 5)
    })
  })

  it('the projection refuses a batch that leaves a gap', async () => {
    await withStore(databases, async (database) => {
      await project(database, batch(1, 5))
      await assert.rejects(project(database, batch(6, 7)), isFault('STORE_CHECKPOINT_MISMATCH'))
      await assert.rejects(
        project(database, batch(0, 1, { partition: 7 })),
        isFault('STORE_NO_CHECKPOINT'),
      )
    })
  })

  it('a database that contains the projection of one log refuses the events of another log', async () => {
    await withStore(databases, async (database) => {
      assert.deepEqual(await claimLog(database, { logId: LOG_ID, partitions: 2 }), [
        { partition: 0, offset: 1 },
        { partition: 1, offset: 0 },
      ])
      const strangers = [
        { logId: 'another', partitions: 2 },
        { logId: LOG_ID, partitions: 3 },
        { logId: LOG_ID, partitions: 1 },
      ]
      for (const stranger of strangers) {
        await assert.rejects(claimLog(database, stranger), isFault('STORE_FOREIGN_LOG'))
      }
      await assert.rejects(
        project(database, { ...batch(1, 2), logId: 'another' }),
        isFault('STORE_FOREIGN_LOG'),
      )
    })
  })

  it('a batch of the projection that fails midway leaves nothing behind', async () => {
    await withStore(databases, async (database) => {
      const known = order('known')
      await project(database, batch(1, 2, { orders: [orderRow(known)] }))
      const good: Partial<ProjectionBatch> = {
        markets: [{ market: market('new'), seq: 1, atMs: START_MS }],
        orders: [orderRow(order('new'))],
        trades: [trade(8, 0)],
        orderChanges: [
          { orderHash: known.orderHash, status: 'filled', remaining: 0, seq: 8, atMs: START_MS },
        ],
      }
      const before = await rowCounts(database)
      const broken: [string, Partial<ProjectionBatch>][] = [
        ['STORE_CONSTRAINT', { ...good, trades: [trade(8, 0), trade(8, 0)] }],
        ['STORE_CONSTRAINT', { ...good, orders: [orderRow(order('new')), orderRow(known)] }],
        [
          'STORE_INCONSISTENT',
          {
            ...good,
            orderChanges: [
              ...(good.orderChanges ?? []),
              { orderHash: id('ghost'), status: 'open', remaining: 1, seq: 8, atMs: START_MS },
            ],
          },
        ],
        [
          'STORE_INCONSISTENT',
          {
            ...good,
            tradeChanges: [
              {
                tradeId: trade(77, 0).tradeId,
                status: 'confirmed',
                txHash: id('tx'),
                reason: '',
                atMs: START_MS,
              },
            ],
          },
        ],
        [
          'STORE_INCONSISTENT',
          {
            ...good,
            marketChanges: [{ marketId: id('ghost'), closed: 'expired', seq: 8, atMs: START_MS }],
          },
        ],
        [
          'STORE_INCONSISTENT',
          { ...good, orders: [orderRow(order('new', { marketId: id('ghost') }))] },
        ],
      ]
      for (const [code, fields] of broken) {
        await assert.rejects(project(database, batch(2, 3, fields)), isFault(code))
        assert.deepEqual(await rowCounts(database), before)
        assert.equal((await orderOf(database, known.orderHash))?.status, 'open')
        assert.equal((await checkpoints(database))[0]?.offset, 2)
      }
      assert.equal((await project(database, batch(2, 3, good))).written, 'applied')
    })
  })

  it('after a restart, new rows of an earlier stored market still get the market’s chain id', async () => {
    await withStore(databases, async (database, url) => {
      await project(
        database,
        batch(1, 2, {
          markets: [{ market: market('far', { chainId: 137 }), seq: 1, atMs: START_MS }],
        }),
      )
      const again = await openDatabase(url)
      try {
        assert.equal((await project(again, opening)).written, 'already')
        const far = id<MarketId>('far')
        await project(
          again,
          batch(2, 3, {
            orders: [orderRow(order('o', { marketId: far }))],
            trades: [trade(2, 0, { marketId: far })],
          }),
        )
        assert.equal((await orderOf(again, id('o')))?.chainId, 137)
        assert.equal((await recentTrades(again, { marketId: far, limit: 9 }))[0]?.chainId, 137)
      } finally {
        await closeDatabase(again)
      }
    })
  })
})
