/**
 * Tests the schema: its creation and upgrade, the refusal of a schema that another version wrote, and the comparison
 * with the entities.
 */

import assert from 'node:assert/strict'
import { it } from 'node:test'
import { Migration } from '@mikro-orm/migrations'
import { closeDatabase, type Database, sqlConnection } from '#store/engine/database.ts'
import { migrationsOf } from '#store/migrations/list.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { onBothDatabases, type TestDatabases } from '../../support/databases.ts'

const MARKET = `insert into markets values
  (x'${'ab'.repeat(32)}', 31337, 'Will it?', '', 'general', x'${'cd'.repeat(20)}', x'${'ef'.repeat(20)}',
   2000000000, 1, 0, 1, null, null, 0, 7, null)`

class Later extends Migration {
  override up(): void {
    this.addSql('create table later (id integer not null primary key)')
  }
}

async function withFresh(
  databases: TestDatabases,
  work: (database: Database) => Promise<void>,
): Promise<void> {
  const database = await openDatabase(await databases.fresh())
  await work(database).finally(() => closeDatabase(database))
}

const rowsOf = (database: Database, statement: string) =>
  sqlConnection(database).execute<Record<string, unknown>[]>(statement)

await onBothDatabases('the schema of the database can be upgraded', (databases) => {
  const { dialect } = databases
  const baseline = migrationsOf(dialect)
  const names = baseline.map(({ name }) => name)

  it('an upgrade of the schema keeps the rows, and afterwards the previous version refuses the database', async () => {
    await withFresh(databases, async (database) => {
      const upgraded = [...baseline, { name: '999-later', class: Later as never }]
      assert.deepEqual(await migrate(database), names)
      await rowsOf(database, MARKET)
      assert.deepEqual(await migrate(database, upgraded), ['999-later'])
      assert.deepEqual(await migrate(database, upgraded), [])
      assert.equal((await rowsOf(database, 'select * from later')).length, 0)
      const [market] = await rowsOf(database, 'select question, last_seq from markets')
      assert.deepEqual([market?.question, Number(market?.last_seq)], ['Will it?', 7])
      await assert.rejects(migrate(database), {
        code: 'STORE_NEWER',
        message: /^the database was written by a newer version with the migration 999-later: /,
      })
    })
  })

  it('a schema older than the oldest supported one is refused, and left unchanged', async () => {
    await withFresh(databases, async (database) => {
      const first = '001-markets-orders-trades'
      await migrate(database, [{ name: first, class: Later as never }])
      await assert.rejects(migrate(database), {
        code: 'STORE_OLDER',
        message:
          'the database was written by an older version with the migration ' +
          `${first}, which this version cannot upgrade: start that version, or configure an empty database and run npm run rebuild`,
      })
      assert.deepEqual(
        (await rowsOf(database, 'select name from migrations')).map(({ name }) => name),
        [first],
      )
      await assert.rejects(rowsOf(database, 'select 1 from markets'))
    })
  })

  it('the migrated schema has all columns of the ORM entities, with the same keys and nullable columns', async () => {
    const database = await openDatabase(await databases.migrated())
    try {
      const entities = [...database.orm.getMetadata().getAll().values()]
      assert.equal(entities.length, 10)
      for (const { tableName, props } of entities) {
        const found = await columnsOf(database, tableName)
        for (const { fieldNames, nullable = false } of props) {
          const name = fieldNames[0] ?? ''
          assert.equal(found.get(name), nullable, `${tableName}.${name} may be null`)
        }
        // Some columns exist only on MySQL and are not part of the ORM: row numbers, and a column that only an index
        // needs.
        const own = dialect === 'mysql' ? ['row_no', 'permit_owner'] : []
        const known = new Set([...props.flatMap(({ fieldNames }) => fieldNames), ...own])
        assert.deepEqual(
          [...found.keys()].filter((name) => !known.has(name)),
          [],
          tableName,
        )
      }
    } finally {
      await closeDatabase(database)
    }
  })
})

/** Returns for each column of a table whether it may be null. */
async function columnsOf(database: Database, table: string): Promise<Map<string, boolean>> {
  const rows = await rowsOf(
    database,
    database.address.dialect === 'sqlite'
      ? `select name, "notnull" as required from pragma_table_info('${table}')`
      : `select column_name as name, is_nullable = 'NO' as required from information_schema.columns
          where table_schema = database() and table_name = '${table}'`,
  )
  return new Map(rows.map(({ name, required }) => [String(name), Number(required) === 0]))
}
