/**
 * Brings the schema up to date, once at every start before any worker opens the database. The
 * migrations of both dialects are static lists; those already run are left alone, and a database
 * that knows migrations of a newer Sibyl is refused.
 */

import { MikroORM } from '@mikro-orm/core'
import { Migrator } from '@mikro-orm/migrations'
import { Fault } from '#domain/fault.ts'
import { fillProfits } from '../chain-index/fill-profits.ts'
import { mysqlMigrations } from '../migrations/mysql.ts'
import { sqliteMigrations } from '../migrations/sqlite.ts'
import { fillSums } from '../projection/recount.ts'
import { type Database, ormOptions } from './database.ts'
import { storeFault } from './store-fault.ts'

/** The names of the migrations that were run now. */
export async function migrate(database: Database): Promise<string[]> {
  const { address } = database
  const migrationsList = address.dialect === 'sqlite' ? sqliteMigrations : mysqlMigrations
  try {
    const orm = new MikroORM({
      ...(await ormOptions(address, false, 1)),
      // Migrations are statements: what the entities are like takes long to find out, and is not asked.
      entities: [],
      discovery: { warnWhenNoEntities: false },
      extensions: [Migrator],
      migrations: {
        tableName: 'migrations',
        migrationsList,
        snapshot: false,
        disableForeignKeys: false,
      },
    })
    try {
      const migrator = new Migrator(orm.em)
      const known = new Set(migrationsList.map((migration) => migration.name))
      const stranger = (await migrator.getExecuted()).find(({ name }) => !known.has(name))
      if (stranger !== undefined) {
        throw new Fault(
          'STORE_NEWER',
          `the database was written by a newer version: it knows the migration ${stranger.name}`,
          { retryable: false },
        )
      }
      const done = (await migrator.up()).map((migration) => migration.name)
      await fillSums(database)
      await fillProfits(database)
      return done
    } finally {
      await orm.close(true)
    }
  } catch (error) {
    throw storeFault(error)
  }
}
