/** Syncs files that were copied by the system, so that they are on disk. */

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { syncFolder } from '#log/log-folder.ts'

/** Syncs the files and folders of a folder that no process writes. */
export function syncTree(folder: string): void {
  for (const each of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    syncFolder(join(folder, each))
  }
  syncFolder(folder)
}
