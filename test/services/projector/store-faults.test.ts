import assert from 'node:assert/strict'
import { it } from 'node:test'
import { onBothDatabases, onServerDatabase } from '../../support/databases.ts'
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

await onBothDatabases('a store that is killed between batches', ({ fresh }) => {
  it('a store that is killed between batches loses nothing and writes nothing twice', () =>
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

await onServerDatabase('a database that is away', ({ fresh }) => {
  it('an unreachable database stops nothing but the projection, which catches up', () =>
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
        // The store may also start while the database is away, and must not bring anything down.
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
})
