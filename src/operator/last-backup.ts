/**
 * A file in the data folder whose modification time is the time of the last backup. The exchange reports the age of the
 * last backup, so an operator with other means of backup can `touch` the file.
 */

import { statSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const LAST_BACKUP = 'last-backup'

export function markBackup(dataDir: string, folder: string, madeAt: string): void {
  const path = join(dataDir, LAST_BACKUP)
  writeFileSync(path, `${folder}\n`)
  utimesSync(path, new Date(madeAt), new Date(madeAt))
}

/**
 * Returns the time of the last backup in Unix milliseconds. If there was none, returns the creation time of the log;
 * undefined if there is no log.
 */
export function lastBackupMs(dataDir: string): number | undefined {
  return modifiedMs(join(dataDir, LAST_BACKUP)) ?? modifiedMs(join(dataDir, 'log', 'log.json'))
}

function modifiedMs(path: string): number | undefined {
  const found = statSync(path, { throwIfNoEntry: false })
  // Round the time: `utimes` takes seconds as a float, which loses fractions of a millisecond.
  return found === undefined ? undefined : Math.round(found.mtimeMs)
}
