/**
 * Migrates the database to the newest schema before any thread starts. If the database is unreachable, an exchange on
 * one machine ends with a one-line error. A node of a cluster waits for the database, because a database server may
 * have failed just before the node's start.
 */

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Log } from '#config/logging.ts'
import { SettingsError } from '#config/settings.ts'
import type { Settings } from '#config/settings-schema.ts'
import { isNode } from '#config/thread-data.ts'
import { Fault } from '#domain/fault.ts'
import { closeDatabase, type Database, openEntities } from '#store/engine/database.ts'
import { describeDatabaseUrl } from '#store/engine/database-url.ts'
import { CheckpointEntity } from '#store/entities/checkpoint.ts'
import { isMigrated, migrate } from '#store/migrations/migrate.ts'
import { checkpoints } from '#store/projection/checkpoints.ts'
import { hasRole } from './node-specs.ts'

const POLL_MS = 200
/**
 * Maximum time in milliseconds that a node waits for the database. A database cluster that has lost a server needs some
 * seconds to recover.
 */
const WAIT_MS_MAX = 60_000

type Run = { readonly signal: AbortSignal; readonly log: Pick<Log, 'warn'> }

/**
 * Resolves with the migrations that were run, or with an empty list if the start was stopped before the database was
 * ready.
 */
export async function prepareDatabase(
  databaseUrl: string,
  settings: Settings,
  run: Run,
): Promise<string[]> {
  const untilMs = performance.now() + (isNode(settings) ? WAIT_MS_MAX : 0)
  for (let lastLogged = ''; ; await pause(POLL_MS)) {
    if (run.signal.aborted) return []
    try {
      return await prepareOnce(databaseUrl, settings, run)
    } catch (error) {
      // A login that is refused at the start is a mistake in the settings, so a retry would not help.
      const mayHelp = error instanceof Fault && error.retryable && error.code !== 'STORE_REFUSED'
      if (!mayHelp || performance.now() >= untilMs) throw error
      if (lastLogged !== error.message)
        run.log.warn({}, `waiting for the database: ${error.message}`)
      lastLogged = error.message
    }
  }
}

async function prepareOnce(databaseUrl: string, settings: Settings, run: Run): Promise<string[]> {
  // Opens only the checkpoint entity, because preparing all entities takes a tenth of the CPU time of a start.
  const database = await openEntities(databaseUrl, [CheckpointEntity], {
    silentMsMax: Number.POSITIVE_INFINITY,
  })
  try {
    // In a cluster, the nodes that write the database migrate it; other nodes wait for the migration.
    const writes = hasRole(settings, 'store')
    if (!writes && !(await untilMigrated(database, run))) return []
    const migrations = writes ? await migrate(database) : []
    await refuseForeign(database, databaseUrl, settings)
    return migrations
  } finally {
    await closeDatabase(database)
  }
}

/** Waits until another node has migrated the database. Returns false if the start was stopped meanwhile. */
async function untilMigrated(database: Database, { signal, log }: Run): Promise<boolean> {
  for (let looks = 0; !(await isMigrated(database)); looks++) {
    if (signal.aborted) return false
    if (looks === 0) log.warn({}, 'waiting for a node with the role store to migrate the database')
    await pause(POLL_MS)
  }
  return true
}

/** Refuses a database with data if the exchange has no event log yet: the data must be from another event log. */
async function refuseForeign(
  database: Database,
  databaseUrl: string,
  { eventLog, data }: Settings,
): Promise<void> {
  const hasNoLog = eventLog.url === '' && !existsSync(join(data.dir, 'log'))
  if (!hasNoLog || (await checkpoints(database)).length === 0) return
  throw new SettingsError(
    `SIBYL_DATABASE_URL: ${describeDatabaseUrl(databaseUrl)} contains data from an event log, ` +
      `but ${data.dir} contains no event log; set SIBYL_DATA_DIR to the folder with that event ` +
      'log, or use an empty database',
  )
}
