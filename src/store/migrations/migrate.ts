/**
 * Brings the schema up to date at every start, before any worker opens the database. Skips migrations that ran already.
 * Refuses a database with migrations that this version does not know.
 */

import { MikroORM } from '@mikro-orm/core'
import { Migrator } from '@mikro-orm/migrations'
import { Fault } from '#domain/fault.ts'
import { type Database, ormOptions, read } from '../engine/database.ts'
import { storeFault } from '../engine/store-fault.ts'
import { migrationsOf } from './list.ts'

/** Maximum wait for another process that migrates the database. */
const OTHERS_SECONDS_MAX = 600

type Migrations = ReturnType<typeof migrationsOf>

async function openMigrations(database: Database, migrationsList: Migrations) {
  const { address, servers } = database
  // If the first of several servers is down, this read finds one that works.
  if (servers !== undefined) await read(database, (em) => em.getConnection().execute('select 1'))
  return new MikroORM({
    ...(await ormOptions(address, { connectionsMax: 1, servers })),
    // Migrations are plain statements. Reading the entities would take long and is not needed.
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
}

const MIGRATIONS_TABLE =
  'SELECT 1 FROM information_schema.tables ' +
  "WHERE table_schema = DATABASE() AND table_name = 'migrations'"

/** Returns whether a shared database needs no migration; changes nothing. */
export async function isMigrated(database: Database): Promise<boolean> {
  try {
    const orm = await openMigrations(database, migrationsOf(database.address.dialect))
    try {
      // Use plain SQL to find out whether the migrator's table exists, because the migrator would create the table in
      // every waiting process.
      const made = await orm.em.getConnection().execute(MIGRATIONS_TABLE)
      return made.length > 0 && (await new Migrator(orm.em).getPending()).length === 0
    } finally {
      await orm.close(true)
    }
  } catch (error) {
    throw storeFault(error)
  }
}

/** Runs the migrations that are missing, and returns their names. */
export async function migrate(
  database: Database,
  migrations: Migrations = migrationsOf(database.address.dialect),
): Promise<string[]> {
  try {
    const orm = await openMigrations(database, migrations)
    try {
      // Several nodes may start at the same time, so a lock lets only one of them migrate. The migrations run on the
      // connection that holds the lock, because the ORM has only one.
      if (database.address.dialect === 'mysql') {
        const lock = `SELECT GET_LOCK(CONCAT(DATABASE(), '.migrations'), ${OTHERS_SECONDS_MAX})`
        await orm.em.getConnection().execute(lock)
      }
      const migrator = new Migrator(orm.em)
      refuseUnknown(
        (await migrator.getExecuted()).map(({ name }) => name),
        migrations,
      )
      return (await migrator.up()).map((migration) => migration.name)
    } finally {
      await orm.close(true)
    }
  } catch (error) {
    throw storeFault(error)
  }
}

/** Throws if the database has a migration that is not in the list. */
export function refuseUnknown(executed: readonly string[], migrations: Migrations): void {
  const known = migrations.map(({ name }) => name)
  const unknown = executed.find((name) => !known.includes(name))
  if (unknown === undefined) return
  // A migration's name begins with its number. A number below the baseline's comes from an older version.
  if (unknown < (known[0] ?? '')) {
    throw new Fault(
      'STORE_OLDER',
      `the database was written by an older version with the migration ${unknown}, which this version cannot upgrade: ` +
        'start that version, or configure an empty database and run npm run rebuild',
      { retryable: false },
    )
  }
  throw new Fault(
    'STORE_NEWER',
    `the database was written by a newer version with the migration ${unknown}: start that ` +
      'version, or restore a backup from before it',
    { retryable: false },
  )
}
