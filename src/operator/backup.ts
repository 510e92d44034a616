/**
 * Backs up an exchange, running or not. It copies the database first, then the log, then the archive. So the database
 * is never ahead of the log, and events that the database lacks are in the log or in the archive.
 *
 *   <backup>/manifest.json   database/…   log/…   archive/…   chain.json
 */

import { copyFileSync, existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { makeFolder } from '#config/make-folder.ts'
import { Fault } from '#domain/fault.ts'
import { openArchive, wholeLog } from '#log/archive/archive-reader.ts'
import { copyArchive, copyLog } from '#log/copy-log.ts'
import { openLogReader } from '#log/log-reader.ts'
import { PACKED } from '#log/packed-event.ts'
import { copyDatabase } from '#store/copies/copy-database.ts'
import { closeDatabase } from '#store/engine/database.ts'
import { openDatabase } from '#store/open-database.ts'
import { checkpoints } from '#store/projection/checkpoints.ts'
import { markBackup } from './last-backup.ts'
import { type Manifest, writeManifest } from './manifest.ts'
import { checkReach } from './rebuild.ts'
import { syncTree } from './sync-tree.ts'

/** Paths and URLs of the data that an exchange must not lose. */
export type Places = {
  readonly dataDir: string
  readonly databaseUrl: string
  readonly archiveDir: string
  /** Database of the log; empty if the log is only in the data folder. */
  readonly logUrl: string
}

/**
 * Maximum number of attempts. The backup starts again if the log was truncated between the copy of the database and the
 * copy of the log.
 */
const ROUNDS_MAX = 3

export const CHAIN_RECORD = 'chain.json'

/** Writes a backup into a folder that is empty or does not exist. */
export async function backup(
  places: Places,
  folder: string,
  say: (line: string) => void,
): Promise<Manifest> {
  if (existsSync(folder) && readdirSync(folder).length > 0) {
    throw new Fault('BACKUP_REFUSED', `${folder} is not empty: ${some(folder)}`, {
      retryable: false,
    })
  }
  if (!existsSync(join(places.dataDir, 'log'))) {
    throw new Fault('BACKUP_REFUSED', `there is no event log in ${places.dataDir}`, {
      retryable: false,
    })
  }
  makeFolder('--to', folder)
  const madeAt = new Date().toISOString()
  for (let round = 1; ; round++) {
    const reached = await readCheckpoints(places.databaseUrl)
    mkdirSync(join(folder, 'database'))
    const database = await copyDatabase(places.databaseUrl, join(folder, 'database'))
    say('the database is copied')
    const log = copyLog(places.dataDir, folder)
    const segments = copyArchive(places.archiveDir, join(folder, 'archive'), log)
    say(`the log is copied: ${log.partitions.length} partitions, ${segments} archived segments`)
    const gap = await gapBehind(folder, reached)
    if (gap === undefined) {
      const record = join(places.dataDir, CHAIN_RECORD)
      if (existsSync(record)) copyFileSync(record, join(folder, CHAIN_RECORD))
      const manifest = await writeManifest(folder, { madeAt, database, ...log })
      syncTree(folder)
      mark(places.dataDir, folder, madeAt, say)
      return manifest
    }
    if (round === ROUNDS_MAX) throw gap
    say('the log was truncated during the backup; the backup starts again')
    for (const name of readdirSync(folder)) {
      rmSync(join(folder, name), { recursive: true, force: true })
    }
  }
}

/**
 * Records the time of the backup in the data folder. A failure, such as a full or read-only disk, is only reported,
 * because the backup itself is complete.
 */
function mark(dataDir: string, folder: string, madeAt: string, say: (line: string) => void): void {
  try {
    markBackup(dataDir, folder, madeAt)
  } catch (error) {
    say(`the metric sibyl_backup_age_seconds does not include this backup: ${String(error)}`)
  }
}

/**
 * Reads the checkpoints of the database before it is copied, so that the copy contains at least the events up to these
 * checkpoints.
 */
async function readCheckpoints(url: string): Promise<readonly number[]> {
  const database = await openDatabase(url, {
    readOnly: true,
    silentMsMax: Number.POSITIVE_INFINITY,
  })
  try {
    return (await checkpoints(database)).map(({ offset }) => offset)
  } finally {
    await closeDatabase(database)
  }
}

/** Returns the reason why the copied database cannot be brought up to date from the copied log; undefined if it can. */
async function gapBehind(folder: string, reached: readonly number[]): Promise<Fault | undefined> {
  const reader = openLogReader(folder, { form: PACKED })
  try {
    const archive = openArchive(join(folder, 'archive'), reader, { form: PACKED })
    const from = Array.from({ length: reader.partitions }, (_, place) => reached[place] ?? 0)
    checkReach(wholeLog(reader, archive), from)
    return undefined
  } catch (error) {
    if (!(error instanceof Fault)) throw error
    return new Fault(
      error.code,
      `${error.message}; to keep events for longer, set SIBYL_LOG_ARCHIVE=true or a longer SIBYL_LOG_RETENTION`,
      { retryable: false, cause: error },
    )
  } finally {
    await reader.close()
  }
}

/** Returns the names of the first files in a folder, for a message. */
export function some(folder: string): string {
  const names = readdirSync(folder)
  return `${names.slice(0, 5).join(', ')}${names.length > 5 ? ', …' : ''}`
}
