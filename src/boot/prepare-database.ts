/**
 * Brings the database to the newest shape before any thread starts. On one machine, one that is not there ends the
 * start with a line. A node of several waits for it a while: it may start just when a server of them has died.
 */

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Log } from '#config/logging.ts'
import { SettingsError } from '#config/settings.ts'
import type { Settings } from '#config/settings-schema.ts'
import { isNode } from '#config/thread-data.ts'
import { Fault } from '#domain/fault.ts'
import { closeDatabase, type Database } from '#store/engine/database.ts'
import { describeDatabaseUrl } from '#store/engine/database-url.ts'
import { isMigrated, migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { checkpoints } from '#store/projection/checkpoints.ts'
import { hasRole } from './node-specs.ts'

const POLL_MS = 200
/** How long a node waits: a cluster of servers that has lost one needs some seconds to go on. */
const WAIT_MS_MAX = 60_000

type Run = { readonly signal: AbortSignal; readonly log: Pick<Log, 'warn'> }

/** Resolves with the migrations that it has made; with none when it was to stop meanwhile. */
export async function prepareDatabase(
  databaseUrl: string,
  settings: Settings,
  run: Run,
): Promise<string[]> {
  const untilMs = performance.now() + (isNode(settings) ? WAIT_MS_MAX : 0)
  for (let told = ''; ; await pause(POLL_MS)) {
    if (run.signal.aborted) return []
    try {
      return await prepareOnce(databaseUrl, settings, run)
    } catch (error) {
      // A login that is refused at the start is a mistake in the settings.
      const mayHelp = error instanceof Fault && error.retryable && error.code !== 'STORE_REFUSED'
      if (!mayHelp || performance.now() >= untilMs) throw error
      if (told !== error.message) run.log.warn({}, `waits for the database: ${error.message}`)
      told = error.message
    }
  }
}

async function prepareOnce(databaseUrl: string, settings: Settings, run: Run): Promise<string[]> {
  const database = await openDatabase(databaseUrl, { patient: true })
  try {
    // Of several machines, those that write the database bring it to its shape; the others wait for it.
    const writes = hasRole(settings, 'store')
    if (!writes && !(await untilMigrated(database, run))) return []
    const migrations = writes ? await migrate(database) : []
    await refuseForeign(database, databaseUrl, settings)
    return migrations
  } finally {
    await closeDatabase(database)
  }
}

/** False when it was to stop meanwhile. */
async function untilMigrated(database: Database, { signal, log }: Run): Promise<boolean> {
  for (let looks = 0; !(await isMigrated(database)); looks++) {
    if (signal.aborted) return false
    if (looks === 0) log.warn({}, 'the database waits for a node with the role store')
    await pause(POLL_MS)
  }
  return true
}

/** One that another event log has filled is refused. */
async function refuseForeign(
  database: Database,
  databaseUrl: string,
  { log, data }: Settings,
): Promise<void> {
  const hasNoLog = log.url === '' && !existsSync(join(data.dir, 'log'))
  if (!hasNoLog || (await checkpoints(database)).length === 0) return
  throw new SettingsError(
    `SIBYL_DATABASE_URL: ${describeDatabaseUrl(databaseUrl)} has data of another event log than ` +
      `that in ${data.dir}; empty it, or name another database`,
  )
}
