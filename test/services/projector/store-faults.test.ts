import assert from 'node:assert/strict'
import { it } from 'node:test'
import { closeDatabase, transact } from '#store/engine/database.ts'
import { openDatabase } from '#store/open-database.ts'
import { onBothDatabases, onServer, onServerDatabase } from '../../support/databases.ts'
import { doorTo } from '../../support/door.ts'
import { eventually } from '../../support/eventually.ts'
import {
  assertOpen,
  assertProjected,
  expectedFrom,
  projectedTo,
  untilProjected,
} from '../market/agreement.ts'
import { openMarkets, openOrders, withExchanges } from '../market/exchange-fixture.ts'
import { orderStream } from '../market/order-stream.ts'

await onBothDatabases('the projector survives kills', ({ fresh }) => {
  it('a projector that is killed between batches loses nothing and writes nothing twice', () =>
    withExchanges(async (start, dataDir) => {
      const databaseUrl = await fresh()
      const exchange = await start({ env: { SIBYL_DATABASE_URL: databaseUrl } })
      const stream = orderStream(21, 5)
      await openMarkets(exchange, stream)
      for (let kill = 0; kill < 4; kill++) {
        for (let turn = 0; turn < 10; turn++) await exchange.askAll(stream.take(50))
        await exchange.supervisor.kill('store')
      }
      const expected = expectedFrom(dataDir)
      assertOpen(expected, await openOrders(exchange))
      await untilProjected(expected, databaseUrl)
      await assertProjected(expected, databaseUrl)
    }))
})

await onServerDatabase(
  'the projector catches up after the database was unreachable',
  ({ fresh }) => {
    it('an unreachable database stops only the projection, which catches up once the database is reachable', () =>
      withExchanges(async (start, dataDir) => {
        const databaseUrl = await fresh()
        const door = await doorTo(new URL(databaseUrl))
        const exchange = await start({
          env: { SIBYL_DATABASE_URL: door.url, SIBYL_HEALTH_INTERVAL_MS: '1000' },
        })
        const stream = orderStream(22, 5)
        await openMarkets(exchange, stream)
        await exchange.askAll(stream.take(200))
        for (const killed of [false, true]) {
          door.shut()
          const before = await projectedTo(databaseUrl)
          // A store that starts while the database is unavailable must not stop anything else.
          if (killed) await exchange.supervisor.kill('store')
          for (let turn = 0; turn < 10; turn++) {
            const answers = await exchange.askAll(stream.take(30))
            assert(answers.every((answer) => !('unanswered' in (answer as object))))
          }
          await eventually(() => {
            const { ready, why } = exchange.supervisor.health().store!
            assert.equal(ready, false)
            assert.notEqual(why, '')
          })
          const total = (offsets: number[]) => offsets.reduce((sum, offset) => sum + offset, 0)
          assert(total(expectedFrom(dataDir).offsets) > total(before))
          await door.reopen()
          const expected = expectedFrom(dataDir)
          await untilProjected(expected, databaseUrl)
          await assertProjected(expected, databaseUrl)
          await eventually(() => assert.equal(exchange.supervisor.health().store?.ready, true))
        }
      }))
  },
)

await onServerDatabase(
  'a blocked partition does not delay the projection of other partitions',
  ({ fresh }) => {
    it('the projector writes a partition without waiting for partitions whose rows are locked in the database', () =>
      withExchanges(async (start, dataDir) => {
        const databaseUrl = await fresh()
        const exchange = await start({
          env: { SIBYL_DATABASE_URL: databaseUrl, SIBYL_LOG_PARTITIONS: '8' },
        })
        const stream = orderStream(23, 8)
        await openMarkets(exchange, stream)
        await untilProjected(expectedFrom(dataDir), databaseUrl)
        const locker = await openDatabase(databaseUrl)
        try {
          await transact(locker, async (transaction, connection) => {
            // Locks seven rows one by one. A range query would also lock the next row, which is the row of the eighth
            // partition.
            for (let partition = 0; partition < 7; partition++) {
              const lock = 'select * from checkpoints where log_partition = ? for update'
              await connection.execute(lock, [partition], 'all', transaction)
            }
            await exchange.askAll(stream.take(200))
            // Each of the seven locked partitions waits on a connection of its own. With fewer connections, the eighth
            // partition would wait, too.
            await eventually(async () => {
              const waiting = await onServer(
                `select 1 from information_schema.processlist
                where db = '${new URL(databaseUrl).pathname.slice(1)}' and info like 'update checkpoints%'`,
              )
              assert.equal(waiting.length, 7)
            })
            await exchange.askAll(stream.take(200))
            const [, , , , , , , last] = expectedFrom(dataDir).offsets
            await eventually(async () => assert.equal((await projectedTo(databaseUrl))[7], last))
          })
        } finally {
          await closeDatabase(locker)
        }
        const expected = expectedFrom(dataDir)
        await untilProjected(expected, databaseUrl)
        await assertProjected(expected, databaseUrl)
      }))
  },
)
