/** Makes the folder of a database file before the file is opened. An error names the setting `SIBYL_DATABASE_URL`. */

import { dirname } from 'node:path'
import { makeFolder } from '#config/make-folder.ts'
import { parseDatabaseUrl } from '#store/engine/database-url.ts'

export function makeDatabaseFolder(databaseUrl: string): void {
  const address = parseDatabaseUrl(databaseUrl)
  if (address.dialect === 'sqlite') makeFolder('SIBYL_DATABASE_URL', dirname(address.path))
}
