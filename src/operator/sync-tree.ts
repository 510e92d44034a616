/** What was copied by the system's own means is on the disk when all of it was synced. */

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { syncFolder } from '#log/log-folder.ts'

/** Of a folder that nobody writes: its files, its folders and their names. */
export function syncTree(folder: string): void {
  for (const each of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    syncFolder(join(folder, each))
  }
  syncFolder(folder)
}
