import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it, test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { inspect } from 'node:util'
import { Fault } from '#domain/fault.ts'
import {
  closeDatabase,
  type Database,
  read,
  sqlConnection,
  transact,
} from '#store/engine/database.ts'
import { storeFault } from '#store/engine/store-fault.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { checkpoints } from '#store/projection/checkpoints.ts'
import { project } from '#store/projection/project.ts'
import { makeReads } from '#store/reads/reads.ts'
import { recentTrades } from '#store/reads/trades.ts'
import {
  onBothDatabases,
  onServer,
  onServerDatabase,
  TEST_MYSQL_URL,
} from '../../support/databases.ts'
import { doorTo } from '../../support/door.ts'
import { eventually } from '../../support/eventually.ts'
import { batch, id, opening, order, orderOf, orderRow, trade, withStore } from '../batches.ts'

function fault(code: string, retryable: boolean) {
  return (error: unknown) => {
    assert(error instanceof Fault, inspect(error))
    assert.equal(error.code, code, error.message)
    assert.equal(error.retryable, retryable)
    return true
  }
}

const REFUSED_LOGIN = fault('STORE_REFUSED', true)

/** Ends every connection to the database, as a restart of the server would. */
async function killConnections(name: string): Promise<number> {
  const found = await onServer<{ id: number | string }>(
    `select id from information_schema.processlist where db = '${name}'`,
  )
  for (const row of found) await onServer(`kill ${row.id}`).catch(() => {})
  return found.length
}

function nameOf(database: Database): string {
  assert(database.address.dialect === 'mysql')
  return database.address.name
}

test('an unreachable database server causes a retryable fault that does not contain the password', async () => {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))

  const database = await openDatabase(`mysql://ann:opensesame@127.0.0.1:${port}/sibyl`)
  try {
    const calls = [
      () => recentTrades(database, { marketId: id('m'), limit: 1 }),
      () => project(database, opening),
      () => migrate(database),
    ]
    for (const call of calls) {
      await assert.rejects(call(), (error) => {
        assert.doesNotMatch(inspect(error, { depth: 9, showHidden: true }), /opensesame/)
        return fault('STORE_UNAVAILABLE', true)(error)
      })
    }
  } finally {
    await closeDatabase(database)
  }
})

test('lost connections and refused logins are reported as retryable database faults', () => {
  const thrown = (fields: object) => Object.assign(new Error('it broke'), fields)
  for (const error of [
    thrown({ fatal: true }),
    thrown({ fatal: true, code: 'SOMETHING_NEW' }),
    thrown({ code: 'ERR_STREAM_DESTROYED' }),
    thrown({ message: "Can't write in closed state" }),
  ]) {
    assert.ok(fault('STORE_UNAVAILABLE', true)(storeFault(error)))
  }
  const refused = thrown({ fatal: true, code: 'ER_ACCESS_DENIED_ERROR' })
  assert.ok(fault('STORE_REFUSED', true)(storeFault(refused)))
  const absent = storeFault(thrown({ code: 'ER_BAD_DB_ERROR', message: "Unknown database 'x'" }))
  assert.match(
    absent.message,
    /^the server has no such database: create it with CREATE DATABASE \(.*'x'\)$/,
  )
  const barred = storeFault(thrown({ code: 'ER_DBACCESS_DENIED_ERROR' }))
  assert.match(
    barred.message,
    /^the database user has no rights to the database: grant them with GRANT/,
  )
  assert.ok(fault('STORE_FAILED', false)(storeFault(thrown({ code: 'ER_PARSE_ERROR' }))))
})

test('a file that is not a database causes a permanent fault, and a missing file a retryable one', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sibyl-store-'))
  try {
    const path = join(folder, 'letter.txt')
    writeFileSync(path, 'Dear reader, this is not a database. '.repeat(100))
    await assert.rejects(openDatabase(`sqlite:${path}`), fault('STORE_CORRUPT', false))
    await assert.rejects(
      openDatabase(`sqlite:${join(folder, 'missing.db')}`, { readOnly: true }),
      fault('STORE_UNAVAILABLE', true),
    )
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

await onBothDatabases(
  'a database connection refuses invalid queries and values, and never writes if opened for reading',
  (databases) => {
    it('a query on a closed database fails and does not reopen the database', async () => {
      const url = await databases.fresh()
      const database = await openDatabase(url)
      const reads = makeReads(url)
      await closeDatabase(database)
      await reads.close()
      const closed = fault('STORE_UNAVAILABLE', true)
      await assert.rejects(
        transact(database, async () => {}),
        closed,
      )
      await assert.rejects(
        read(database, (em) => em.getConnection().execute('select 1')),
        closed,
      )
      await assert.rejects(reads.query('openMarketContracts', { chainId: 1, limit: 1 }), closed)
    })

    it('a query of a database without tables fails with a fault that is not retryable', async () => {
      const database = await openDatabase(await databases.fresh())
      try {
        await assert.rejects(
          recentTrades(database, { marketId: id('m'), limit: 1 }),
          fault('STORE_FAILED', false),
        )
      } finally {
        await closeDatabase(database)
      }
    })

    it('the database refuses a value that does not fit its column', async () => {
      await withStore(databases, async (database) => {
        const broken = orderRow(order('o'), { remaining: 0.5 })
        const overlong = orderRow(order('o', { signature: `0x${'ab'.repeat(66)}` }))
        if (databases.dialect === 'sqlite') {
          await assert.rejects(
            project(database, batch(1, 2, { orders: [broken] })),
            fault('STORE_CONSTRAINT', false),
          )
        } else {
          await assert.rejects(
            project(database, batch(1, 2, { orders: [overlong] })),
            fault('STORE_CONSTRAINT', false),
          )
        }
        assert.equal((await checkpoints(database))[0]?.offset, 1)
      })
    })

    it('a database that was opened for reading never writes', async () => {
      await withStore(databases, async (database, url) => {
        const reader = await openDatabase(url, { readOnly: true })
        try {
          await assert.rejects(project(reader, batch(1, 2, { trades: [trade(2, 0)] })))
          await assert.rejects(sqlConnection(reader).execute('delete from checkpoints'))
          await project(database, batch(1, 2, { trades: [trade(2, 0)] }))
          const seen = await recentTrades(reader, { marketId: id('m'), limit: 9 })
          assert.equal(seen.length, 1)
        } finally {
          await closeDatabase(reader)
        }
      })
    })

    it('while one connection writes, another connection reads only committed rows', async () => {
      await withStore(databases, async (database, url) => {
        const reader = await openDatabase(url, { readOnly: true })
        try {
          await transact(database, async (transaction, connection) => {
            await connection.execute('delete from markets', [], 'run', transaction)
            assert.equal((await checkpoints(reader))[0]?.offset, 1)
            const rows = await sqlConnection(reader).execute('select 1 from markets')
            assert.equal(rows.length, 1)
          })
          assert.equal((await sqlConnection(reader).execute('select 1 from markets')).length, 0)
        } finally {
          await closeDatabase(reader)
        }
      })
    })
  },
)

await onServerDatabase(
  'reads and writes succeed although database connections are killed',
  (databases) => {
    it('reads succeed after the database server has killed their connections', async () => {
      await withStore(databases, async (database) => {
        await project(database, batch(1, 2, { trades: [trade(2, 0)] }))
        for (let time = 0; time < 3; time++) {
          const ask = () => recentTrades(database, { marketId: id('m'), limit: 9 })
          await Promise.all([ask(), ask(), ask(), ask()])
          assert((await killConnections(nameOf(database))) > 0)
          for (const found of await Promise.all([ask(), ask(), ask()])) {
            assert.equal(found.length, 1)
          }
        }
      })
    })

    it('a transaction that loses its database connection is rolled back as a whole, and a retry succeeds', async () => {
      await withStore(databases, async (database) => {
        await assert.rejects(
          transact(database, async (transaction, connection) => {
            await connection.execute('delete from checkpoints', [], 'run', transaction)
            await killConnections(nameOf(database))
            await connection.execute('delete from markets', [], 'run', transaction)
          }),
          fault('STORE_UNAVAILABLE', true),
        )
        assert.equal((await checkpoints(database))[0]?.offset, 1)
        const next = batch(1, 2, { orders: [orderRow(order('o'))] })
        // The pool may still contain lost connections, so the first attempts may fail. The test retries, as the
        // projector does.
        assert.equal((await eventually(() => project(database, next))).written, 'applied')
        assert.equal((await orderOf(database, id('o')))?.status, 'open')
      })
    })

    it('every batch is applied exactly once although a database connection is killed during each batch', async () => {
      await withStore(databases, async (database) => {
        const batches = Array.from({ length: 40 }, (_, n) =>
          batch(n + 1, n + 2, { trades: [trade(n + 2, 0)] }),
        )
        let kills = 0
        let faults = 0
        for (const [n, each] of batches.entries()) {
          // The connection is killed a little later in each batch: before its first statement, between two statements,
          // after its commit.
          const killed = (async () => {
            for (let turn = 0; turn < n; turn++) await nextTurn()
            kills += await killConnections(nameOf(database))
          })()
          await eventually(() =>
            project(database, each).catch((error) => {
              faults++
              assert(error instanceof Fault && error.retryable, inspect(error))
              throw error
            }),
          )
          await killed
        }
        assert(kills > 0 && faults > 0, `${kills} kills, ${faults} faults`)
        const found = await recentTrades(database, { marketId: id('m'), limit: 100 })
        assert.equal(found.length, batches.length, `${kills} kills, ${faults} faults`)
      })
    })

    it('each refused login to the database doubles the pause before the next login, up to 30 s', async (t) => {
      const url = new URL(TEST_MYSQL_URL)
      const user = `sibyl_${randomBytes(4).toString('hex')}`
      await onServer(`create user ${user}@'%' identified by 'new'`)
      t.after(() => onServer(`drop user ${user}@'%'`))
      url.username = user
      url.password = 'old'
      url.pathname = 'information_schema'
      const door = await doorTo(url)
      let nowMs = 0
      const database = await openDatabase(door.url, { nowMs: () => nowMs })
      t.after(() => closeDatabase(database))
      const ask = () => read(database, (em) => em.getConnection().execute('select 1 as one'))
      const refusals: number[] = []
      for (let second = 0; second <= 125; second++) {
        nowMs = 1_000 * second
        const before = door.passed
        const calls = Array.from({ length: 10 }, () => assert.rejects(ask(), REFUSED_LOGIN))
        await Promise.all(calls)
        if (door.passed > before) refusals.push(second)
      }
      assert.deepEqual(refusals, [0, 1, 3, 7, 15, 31, 61, 91, 121])

      await onServer(`alter user ${user}@'%' identified by 'old'`)
      await assert.rejects(ask(), REFUSED_LOGIN, 'the pause is not over')
      nowMs = 151_000
      assert.deepEqual(await ask(), [{ one: 1 }])
    })

    it('a refused database login is reported without the password', async () => {
      const url = new URL(TEST_MYSQL_URL)
      url.username = 'nobody_of_that_name'
      url.password = 'opensesame'
      url.pathname = 'sibyl'
      const database = await openDatabase(url.href)
      try {
        await assert.rejects(checkpoints(database), (error) => {
          assert.doesNotMatch(inspect(error, { depth: 9, showHidden: true }), /opensesame/)
          return fault('STORE_REFUSED', true)(error)
        })
      } finally {
        await closeDatabase(database)
      }
    })
  },
)
