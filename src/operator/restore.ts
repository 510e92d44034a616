/**
 * Restores a backup into an empty data folder and an empty database, so that an exchange can continue from it. Every
 * byte of the backup is checked first. The folder of the log gets its final name only after the database and all files
 * are copied, so no exchange can start from an incomplete copy. The backup's database may be older than its log. So the
 * restore then writes the events that the database lacks.
 */

import { copyFileSync, cpSync, existsSync, readdirSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { makeFolder } from '#config/make-folder.ts'
import { Fault } from '#domain/fault.ts'
import { openArchive, wholeLog } from '#log/archive/archive-reader.ts'
import { readIdentity, syncFolder } from '#log/log-folder.ts'
import { openLogReader } from '#log/log-reader.ts'
import { PACKED } from '#log/packed-event.ts'
import { adoptLog, hasNoLog } from '#log/server/adopt-log.ts'
import { checkCopyVersion, fillDatabase, inTheWay } from '#store/copies/copy-database.ts'
import { closeDatabase } from '#store/engine/database.ts'
import { parseDatabaseUrl } from '#store/engine/database-url.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { CHAIN_RECORD, type Places, some } from './backup.ts'
import { makeDatabaseFolder } from './database-folder.ts'
import { checkManifest, type Manifest } from './manifest.ts'
import { rebuild } from './rebuild.ts'
import { syncTree } from './sync-tree.ts'

export async function restore(
  folder: string,
  places: Places,
  say: (line: string) => void,
): Promise<Manifest> {
  const manifest = await checkManifest(folder)
  say(`the backup of ${manifest.madeAt} is complete: ${manifest.files.length} files`)
  await refuseToOverwrite(manifest, places)
  await refuseOtherVersion(folder, manifest)
  makeDatabaseFolder(places.databaseUrl)
  makeFolder('SIBYL_DATA_DIR', places.dataDir)
  const draft = join(places.dataDir, `log.new-${manifest.logId}`)
  cpSync(join(folder, 'log'), draft, { recursive: true })
  syncTree(draft)
  const archive = join(folder, 'archive')
  if (existsSync(archive)) {
    makeFolder('SIBYL_LOG_ARCHIVE_DIR', places.archiveDir)
    cpSync(archive, places.archiveDir, { recursive: true, errorOnExist: true, force: false })
    syncTree(places.archiveDir)
  }
  const record = join(folder, CHAIN_RECORD)
  if (existsSync(record)) copyFileSync(record, join(places.dataDir, CHAIN_RECORD))
  await fillDatabase(places.databaseUrl, join(folder, 'database'))
  say('the database is restored')
  renameSync(draft, join(places.dataDir, 'log'))
  syncFolder(places.dataDir)
  say('the log is restored')
  if (places.logUrl !== '') {
    await adoptLog(places.dataDir, places.logUrl)
    say('the log is copied to the database of SIBYL_LOG_URL')
  }
  await catchUp(places, say)
  return manifest
}

async function refuseToOverwrite(manifest: Manifest, places: Places): Promise<void> {
  const { dataDir, databaseUrl, archiveDir, logUrl } = places
  const { dialect } = parseDatabaseUrl(databaseUrl)
  if (dialect !== manifest.database) {
    const kinds = { sqlite: 'SQLite', mysql: 'MySQL' }
    throw refused(
      `the backup contains a ${kinds[manifest.database]} database, but SIBYL_DATABASE_URL names ` +
        `a ${kinds[dialect]} database`,
    )
  }
  if (existsSync(dataDir) && readdirSync(dataDir).length > 0) {
    throw refused(`${dataDir} is not empty: ${some(dataDir)}`)
  }
  if (existsSync(join(archiveDir, manifest.logId))) {
    throw refused(`${archiveDir} has an archive of this log already`)
  }
  if (logUrl !== '' && !(await hasNoLog(logUrl))) {
    throw refused('the database that SIBYL_LOG_URL names already has a log')
  }
  const found = await inTheWay(databaseUrl)
  if (found !== '') throw refused(`the database is not empty: ${found}`)
}

/**
 * Refuses a backup whose log or database has a version that this program cannot read. Called before anything is
 * written, because a restored log beside an unreadable database would not be a working exchange.
 */
async function refuseOtherVersion(folder: string, { database }: Manifest): Promise<void> {
  try {
    readIdentity(folder)
    await checkCopyVersion(database, join(folder, 'database'))
  } catch (error) {
    if (!(error instanceof Fault)) throw error
    throw refused(`the backup cannot be restored by this version: ${error.message}`)
  }
}

async function catchUp(places: Places, say: (line: string) => void): Promise<void> {
  const reader = openLogReader(places.dataDir, { form: PACKED })
  const database = await openDatabase(places.databaseUrl, { silentMsMax: Number.POSITIVE_INFINITY })
  try {
    await migrate(database)
    const log = wholeLog(reader, openArchive(places.archiveDir, reader, { form: PACKED }))
    const { events } = await rebuild({ log, database, say: () => undefined })
    say(`the database has caught up with the log: ${events} more events were written to it`)
  } finally {
    await closeDatabase(database)
    await reader.close()
  }
}

function refused(why: string): Fault {
  return new Fault('RESTORE_REFUSED', `${why}; nothing was changed`, { retryable: false })
}
