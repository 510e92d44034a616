/** Compares the results of prepared statements with those of the ORM. */

import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Address, MarketId, OrderHash } from '#domain/ids.ts'
import { closeDatabase, type Database, sqlConnection } from '#store/engine/database.ts'
import { readTogether, rowsOf } from '#store/engine/prepared.ts'
import { snapshot } from '#store/engine/snapshot.ts'
import { openDatabase } from '#store/open-database.ts'
import { answerQuery, type QueryName, type QueryTask } from '#store/reads/answer-query.ts'
import { textsOfMarkets } from '#store/reads/market-texts.ts'
import { onBothDatabases, type TestDatabases } from '../../support/databases.ts'
import { fillSums } from '../../support/fill-sums.ts'
import { withStore } from '../batches.ts'
import { seedTrades } from '../reads/large-seed.ts'

const START_MS = 1_700_000_000_000
const CHAIN = 31_337
const m = `0x${(7).toString(16).padStart(64, '0')}` as MarketId
const user = `0x${(7).toString(16).padStart(40, '0')}` as Address
const PLACE = { atMs: START_MS + 1_500_000, seq: 900, fillIndex: 0, row: 9 }

function ask<Name extends QueryName>(query: Name, args: QueryTask<Name>['args']): QueryTask {
  return { query, args } as QueryTask
}

const ASKED: QueryTask[] = [
  ask('recentTrades', { marketId: m, limit: 100 }),
  ask('recentTrades', { marketId: m, limit: 5, before: { seq: 380, fillIndex: 0 } }),
  ask('tradesOfUser', { user, chainId: CHAIN, limit: 50 }),
  ask('tradesOfUser', { user, chainId: CHAIN, limit: 50, before: PLACE }),
  ask('newestPendingTrades', { limit: 20 }),
  ask('newestPendingTrades', { limit: 20, before: PLACE }),
  ask('failedTradesSince', { sinceMs: START_MS, limit: 20 }),
  ask('failedTradesSince', { sinceMs: START_MS, limit: 20, before: PLACE }),
  ask('settledTradesOf', { chainId: CHAIN, trader: user, sinceMs: START_MS, limit: 3 }),
  ask('storedOrders', { orderHashes: [`0x${'7'.repeat(64)}` as OrderHash] }),
  ask('positionOf', { market: { marketId: m }, user }),
  ask('positionOf', { market: { contractAddress: user }, user }),
  ask('positionsOfUser', { user, chainId: CHAIN, limit: 100 }),
  ask('positionsOfUser', { user, chainId: CHAIN, limit: 1, after: m }),
  ask('realisedProfitOf', { user, chainId: CHAIN }),
  ask('holdersOf', { marketId: m, limit: 10 }),
  ask('payoutsOfUser', { user, chainId: CHAIN, limit: 100 }),
]

async function withReader(
  databases: TestDatabases,
  body: (reader: Database, writer: Database) => Promise<void>,
): Promise<void> {
  await withStore(databases, async (writer, url) => {
    const reader = await openDatabase(url, { readOnly: true })
    try {
      await body(reader, writer)
    } finally {
      await closeDatabase(reader)
    }
  })
}

await onBothDatabases('prepared reads return current rows', (databases) => {
  it('a prepared statement returns the same rows as the same query by the ORM, even when repeated', async () => {
    await withReader(databases, async (reader, writer) => {
      await seedTrades(writer, { trades: 2_000, markets: 40, users: 20 })
      await fillSums(writer)
      for (const task of [...ASKED, ...ASKED]) {
        const reply = await answerQuery(async () => reader, task)
        assert(reply.ok, task.query)
        assert.deepEqual(reply, await answerQuery(async () => writer, task), task.query)
      }
    })
  })

  it('a prepared read sees rows written since its preparation, and never runs another read’s statement', async () => {
    await withReader(databases, async (reader, writer) => {
      const count = async () =>
        Number((await rowsOf<{ n: number }>(reader, 'select count(*) as n from trades', []))[0]?.n)
      assert.equal(await count(), 0)
      await seedTrades(writer, { trades: 100, markets: 2, users: 4 })
      assert.equal(await count(), 100)
      const [first] = await rowsOf<{ n: number }>(reader, 'select ? + 1 as n', [1])
      assert.equal(Number(first?.n), 2)
      for (let number = 0; number < 250; number++) {
        const [row] = await rowsOf<{ n: number }>(reader, `select ${number} + ? as n`, [1])
        assert.equal(Number(row?.n), number + 1)
      }
    })
  })

  it('a prepared read waits while its connection has a snapshot open, and then sees the new rows', async () => {
    await withReader(databases, async (reader, writer) => {
      const rows = () => rowsOf<{ n: number }>(reader, 'select count(*) as n from trades', [])
      await rows()
      let waiting: Promise<{ n: number }[]> | undefined
      await snapshot(reader, async ({ all }) => {
        await all('select count(*) as n from trades', [])
        await seedTrades(writer, { trades: 100, markets: 2, users: 4 })
        waiting = rows()
        assert.equal(
          Number((await all<{ n: number }>('select count(*) as n from trades', []))[0]?.n),
          0,
        )
      })
      assert.equal(Number((await waiting)?.[0]?.n), 100)
      assert.equal(Number((await rows())[0]?.n), 100)
    })
  })

  it('on SQLite, prepared reads of one group see the database at one instant; later reads see new rows', async () => {
    await withReader(databases, async (reader, writer) => {
      const count = async () =>
        Number((await rowsOf<{ n: number }>(reader, 'select count(*) as n from trades', []))[0]?.n)
      const isFile = reader.address.dialect === 'sqlite'
      const seen = await readTogether(reader, async () => {
        const before = await count()
        await seedTrades(writer, { trades: 100, markets: 2, users: 4 })
        return [before, await readTogether(reader, count), await count()]
      })
      assert.deepEqual(seen, isFile ? [0, 0, 0] : [0, 100, 100])
      assert.equal(await count(), 100)
      const fault = new Error('in the midst of them')
      await assert.rejects(
        readTogether(reader, () => Promise.reject(fault)),
        fault,
      )
      await sqlConnection(writer).execute('delete from trades where seq > 51')
      assert.equal(await count(), 50)
    })
  })

  it('a read of market questions also finds markets that did not exist at an earlier read', async () => {
    await withReader(databases, async (reader, writer) => {
      const digits = Array.from({ length: 20 }, (_, at) => at.toString(16).padStart(64, '0'))
      const ask = async () => digits.map(await textsOfMarkets(reader, digits))
      const none = { question: '', contractAddress: '0x' }
      assert.deepEqual(
        await ask(),
        digits.map(() => none),
      )
      await seedTrades(writer, { trades: 100, markets: 11, users: 4 })
      const words = digits.map((market, at) =>
        at < 11 ? { question: 'Will it?', contractAddress: `0x${market.slice(24)}` } : none,
      )
      const found = await ask()
      assert.deepEqual(found, words)
      assert.equal((await ask())[3], found[3])
    })
  })

  it('an invalid prepared statement fails, and later reads on the connection succeed', async () => {
    await withReader(databases, async (reader) => {
      await assert.rejects(rowsOf(reader, 'select nothing from nowhere', []), { name: 'Fault' })
      assert.equal((await rowsOf(reader, 'select 1 as one', [])).length, 1)
    })
  })
})
