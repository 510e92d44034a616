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
import { type Database, ormOptions, read } from './database.ts'
import { storeFault } from './store-fault.ts'

/** How long another process may take to bring the database to its shape. */
const OTHERS_SECONDS_MAX = 600

async function openMigrations(database: Database) {
  const { address, servers } = database
  // Of several servers some may be away: this finds one that serves.
  if (servers !== undefined) await read(database, (em) => em.getConnection().execute('select 1'))
  const migrationsList = address.dialect === 'sqlite' ? sqliteMigrations : mysqlMigrations
  const orm = new MikroORM({
    ...(await ormOptions(address, { connectionsMax: 1, servers })),
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
  return { orm, migrationsList }
}

const MIGRATIONS_TABLE =
  'SELECT 1 FROM information_schema.tables ' +
  "WHERE table_schema = DATABASE() AND table_name = 'migrations'"

/** Whether nothing is left to be done, in a database that several processes share; changes nothing. */
export async function isMigrated(database: Database): Promise<boolean> {
  try {
    const { orm } = await openMigrations(database)
    try {
      // The migrator would make its table to look into it, and so would all that wait beside this one.
      const made = await orm.em.getConnection().execute(MIGRATIONS_TABLE)
      return made.length > 0 && (await new Migrator(orm.em).getPending()).length === 0
    } finally {
      await orm.close(true)
    }
  } catch (error) {
    throw storeFault(error)
  }
}

/** The names of the migrations that were run now. */
export async function migrate(database: Database): Promise<string[]> {
  try {
    const { orm, migrationsList } = await openMigrations(database)
    try {
      // Several nodes may start at once. The lock goes with the connection, of which there is one.
      if (database.address.dialect === 'mysql') {
        const lock = `SELECT GET_LOCK(CONCAT(DATABASE(), '.migrations'), ${OTHERS_SECONDS_MAX})`
        await orm.em.getConnection().execute(lock)
      }
      const migrator = new Migrator(orm.em)
      const known = new Set(migrationsList.map((migration) => migration.name))
      const stranger = (await migrator.getExecuted()).find(({ name }) => !known.has(name))
      if (stranger !== undefined) {
        throw new Fault(
          'STORE_NEWER',
          `the database was written by a newer version, it knows the migration ${stranger.name}: start that ` +
            'version, or restore a backup from before it',
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
