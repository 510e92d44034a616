/**
 * Brings the schema up to date, once at every start before any worker opens the database. Migrations
 * that ran already are left alone; a database with migrations that this version does not know is refused.
 */

import { MikroORM } from '@mikro-orm/core'
import { Migrator } from '@mikro-orm/migrations'
import { Fault } from '#domain/fault.ts'
import { type Database, ormOptions, read } from '../engine/database.ts'
import { storeFault } from '../engine/store-fault.ts'
import { migrationsOf } from './list.ts'

/** How long another process may take to bring the database to its shape. */
const OTHERS_SECONDS_MAX = 600

type Migrations = ReturnType<typeof migrationsOf>

async function openMigrations(database: Database, migrationsList: Migrations) {
  const { address, servers } = database
  // Of several servers some may be away: this finds one that serves.
  if (servers !== undefined) await read(database, (em) => em.getConnection().execute('select 1'))
  return new MikroORM({
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
}

const MIGRATIONS_TABLE =
  'SELECT 1 FROM information_schema.tables ' +
  "WHERE table_schema = DATABASE() AND table_name = 'migrations'"

/** Whether nothing is left to be done, in a database that several processes share; changes nothing. */
export async function isMigrated(database: Database): Promise<boolean> {
  try {
    const orm = await openMigrations(database, migrationsOf(database.address.dialect))
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
export async function migrate(
  database: Database,
  migrations: Migrations = migrationsOf(database.address.dialect),
): Promise<string[]> {
  try {
    const orm = await openMigrations(database, migrations)
    try {
      // Several nodes may start at once. The lock goes with the connection, of which there is one.
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

function refuseUnknown(executed: readonly string[], migrations: Migrations): void {
  const known = migrations.map(({ name }) => name)
  const unknown = executed.find((name) => !known.includes(name))
  if (unknown === undefined) return
  // Names begin with their number: a lower one than the baseline's is of a version before it.
  if (unknown < (known[0] ?? '')) {
    throw new Fault(
      'STORE_OLDER',
      `the database was written by an older version that this one cannot upgrade, it has the migration ${unknown}: ` +
        'start that version, or name an empty database and run npm run rebuild',
      { retryable: false },
    )
  }
  throw new Fault(
    'STORE_NEWER',
    `the database was written by a newer version, it knows the migration ${unknown}: start that ` +
      'version, or restore a backup from before it',
    { retryable: false },
  )
}
