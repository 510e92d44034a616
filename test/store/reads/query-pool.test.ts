import assert from 'node:assert/strict'
import { readdirSync, readlinkSync } from 'node:fs'
import { it, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Piscina } from 'piscina'
import { Fault } from '#domain/fault.ts'
import { parseDatabaseUrl } from '#store/engine/database-url.ts'
import { project } from '#store/projection/project.ts'
import { askQuery } from '#store/reads/queries.ts'
import { onBothDatabases, onServer } from '../../support/databases.ts'
import { eventually } from '../../support/eventually.ts'
import { batch, id, market, START_MS, trade, withStore } from '../batches.ts'

function queryPool(databaseUrl: string): Piscina {
  return new Piscina({
    filename: fileURLToPath(new URL('../../../workers/query.ts', import.meta.url)),
    name: 'answer',
    workerData: { databaseUrl },
    minThreads: 2,
    maxThreads: 2,
    concurrentTasksPerWorker: 4,
    atomics: 'disabled',
  })
}

/** Returns the number of open resources of the database: connections at the server, or descriptors of the file. */
async function handlesOf(url: string): Promise<number> {
  const at = parseDatabaseUrl(url)
  if (at.dialect === 'mysql') {
    const rows = await onServer(
      `select id from information_schema.processlist where db = '${at.name}'`,
    )
    return rows.length
  }
  return readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(at.path)
    } catch {
      return false
    }
  }).length
}

test('a query that no query thread can answer fails with a retryable fault', async () => {
  const pool = queryPool('sqlite:/nowhere/at/all.db')
  try {
    await assert.rejects(
      askQuery(pool, 'recentTrades', { marketId: id('m'), limit: 1 }),
      (error) => {
        assert(error instanceof Fault)
        assert.equal(error.code, 'STORE_UNAVAILABLE')
        assert.equal(error.retryable, true)
        return true
      },
    )
  } finally {
    await pool.close()
  }
})

await onBothDatabases('query threads answer reads', (databases) => {
  it('the query threads answer concurrent queries for trades and markets', async () => {
    await withStore(databases, async (database, url) => {
      const pool = queryPool(url)
      try {
        const before = await askQuery(pool, 'recentTrades', { marketId: id('m'), limit: 9 })
        assert.deepEqual(before, [])
        await project(database, batch(1, 2, { trades: [trade(2, 0), trade(2, 1)] }))
        const answers = await Promise.all(
          Array.from({ length: 50 }, () =>
            askQuery(pool, 'recentTrades', { marketId: id('m'), limit: 9 }),
          ),
        )
        for (const trades of answers) {
          assert.deepEqual(
            trades.map(({ fillIndex }) => fillIndex),
            [1, 0],
          )
        }
        const found = await askQuery(pool, 'marketById', { marketId: id('m') })
        assert.deepEqual(found, {
          ...market('m'),
          openedAtMs: START_MS,
          closeReason: null,
          closedAtMs: null,
        })
        assert.equal(await askQuery(pool, 'marketById', { marketId: id('none') }), undefined)
        const pending = await askQuery(pool, 'newestPendingTrades', { limit: 1 })
        assert.equal(pending.count, 2)
      } finally {
        await pool.close()
      }
    })
  })

  it('closed query threads leave no database file or connection open', async () => {
    let left = ''
    await withStore(databases, async (_, url) => {
      left = url
      const pool = queryPool(url)
      const ask = () => askQuery(pool, 'recentTrades', { marketId: id('m'), limit: 9 })
      await Promise.all(Array.from({ length: 20 }, ask))
      assert((await handlesOf(url)) > 0)
      await pool.close()
    })
    await eventually(async () => assert.equal(await handlesOf(left), 0))
  })
})
