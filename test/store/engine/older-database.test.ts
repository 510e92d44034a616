/** A database that an earlier version left behind, at whichever migration, is brought to the newest shape. */

import assert from 'node:assert/strict'
import { it } from 'node:test'
import { MikroORM } from '@mikro-orm/core'
import { Migrator } from '@mikro-orm/migrations'
import {
  closeDatabase,
  type Database,
  openDatabase,
  ormOptions,
  sqlConnection,
} from '#store/engine/database.ts'
import { migrate } from '#store/engine/migrate.ts'
import { mysqlMigrations } from '#store/migrations/mysql.ts'
import { sqliteMigrations } from '#store/migrations/sqlite.ts'
import { onBothDatabases, type TestDatabases } from '../../support/databases.ts'

const MARKET = `insert into markets values
  (x'${'ab'.repeat(32)}', 31337, 'Will it?', '', 'general', x'${'cd'.repeat(20)}', x'${'ef'.repeat(20)}',
   2000000000, 1, 0, 1, null, null, 0, 7)`

/** Leaves a database as the version did that had so many migrations. */
async function leaveAt(database: Database, count: number): Promise<void> {
  const { address } = database
  const all = address.dialect === 'sqlite' ? sqliteMigrations : mysqlMigrations
  const orm = new MikroORM({
    ...(await ormOptions(address, { connectionsMax: 1 })),
    entities: [],
    discovery: { warnWhenNoEntities: false },
    extensions: [Migrator],
    migrations: {
      ...{ tableName: 'migrations', migrationsList: all.slice(0, count) },
      ...{ snapshot: false, disableForeignKeys: false },
    },
  })
  try {
    await new Migrator(orm.em).up()
  } finally {
    await orm.close(true)
  }
}

/** Every column of every table, and every index. */
async function shapeOf(database: Database): Promise<string[]> {
  const statement =
    database.address.dialect === 'sqlite'
      ? 'select type, name, sql as what from sqlite_master order by type, name'
      : `select table_name as type, column_name as name, column_type as what from information_schema.columns
          where table_schema = database() order by table_name, column_name`
  const rows = await sqlConnection(database).execute<Record<string, unknown>[]>(statement)
  // Blanks and quotes are how it was written, not what it is.
  return rows.map((row) =>
    Object.values(row)
      .join(' ')
      .replaceAll(/[\s"`]+/g, ' '),
  )
}

async function newest(databases: TestDatabases): Promise<string[]> {
  const database = await openDatabase(await databases.fresh())
  try {
    await migrate(database)
    return await shapeOf(database)
  } finally {
    await closeDatabase(database)
  }
}

await onBothDatabases('a database of an earlier version', (databases) => {
  const names = sqliteMigrations.map(({ name }) => name)
  for (const count of [1, Math.floor(names.length / 2), names.length - 1]) {
    it(`that had ${count} of ${names.length} migrations is brought up to date, with what it has`, async () => {
      const database = await openDatabase(await databases.fresh())
      try {
        await leaveAt(database, 1)
        await sqlConnection(database).execute(MARKET)
        await leaveAt(database, count)
        assert.deepEqual(await migrate(database), names.slice(count))
        assert.deepEqual(await shapeOf(database), await newest(databases))
        const kept = await sqlConnection(database).execute<{ question: string; seq: number }[]>(
          'select question, last_seq as seq from markets',
        )
        assert.deepEqual(
          kept.map(({ question, seq }) => [question, Number(seq)]),
          [['Will it?', 7]],
        )
      } finally {
        await closeDatabase(database)
      }
    })
  }
})
