/** Makes the folder of a database file before it is opened; an error names the setting. */

import { dirname } from 'node:path'
import { makeFolder } from '#config/make-folder.ts'
import { parseDatabaseUrl } from '#store/engine/database-url.ts'

export function makeDatabaseFolder(databaseUrl: string): void {
  const address = parseDatabaseUrl(databaseUrl)
  if (address.dialect === 'sqlite') makeFolder('SIBYL_DATABASE_URL', dirname(address.path))
}
