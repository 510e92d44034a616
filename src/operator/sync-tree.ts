/** Syncs copied files, so that they are on disk. */

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { syncFolder } from '#log/log-folder.ts'

/** Syncs all files and folders inside a folder. No process may be writing them. */
export function syncTree(folder: string): void {
  for (const each of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    syncFolder(join(folder, each))
  }
  syncFolder(folder)
}
