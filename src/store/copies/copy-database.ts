/**
 * Copies a whole database as it is at one instant, even while an exchange writes to it, and restores a copy into an
 * empty database. SQLite itself writes the copy of its file. Each table of a database server is copied into its own
 * file, all in one transaction.
 */

import { copyFileSync, existsSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import Sqlite from 'better-sqlite3'
import { Fault } from '#domain/fault.ts'
import { type DatabaseAddress, parseDatabaseUrl } from '../engine/database-url.ts'
import { storeFault } from '../engine/store-fault.ts'
import { migrationsOf } from '../migrations/list.ts'
import { refuseUnknown } from '../migrations/migrate.ts'
import { columnInCopy, dumpServer, fillServer, tablesOnServer } from './server-copy.ts'

export type Dialect = DatabaseAddress['dialect']

const SQLITE_FILE = 'sibyl.db'

/** Copies the database into this folder, which must exist and be empty. */
export async function copyDatabase(url: string, folder: string): Promise<Dialect> {
  const address = parseDatabaseUrl(url)
  if (address.dialect === 'mysql') await dumpServer(url, folder)
  else copyFile(address.path, join(folder, SQLITE_FILE))
  return address.dialect
}

function copyFile(path: string, into: string): void {
  if (!existsSync(path)) {
    throw new Fault('STORE_MISSING', `there is no database at ${path}`, { retryable: false })
  }
  try {
    const source = new Sqlite(path, { readonly: true, fileMustExist: true })
    try {
      source.prepare('VACUUM INTO ?').run(into)
    } finally {
      source.close()
    }
  } catch (error) {
    throw storeFault(error)
  }
}

/** Throws if this version of the exchange cannot upgrade the copy. Changes nothing. */
export async function checkCopyVersion(dialect: Dialect, folder: string): Promise<void> {
  refuseUnknown(await migrationsInCopy(dialect, folder), migrationsOf(dialect))
}

async function migrationsInCopy(dialect: Dialect, folder: string): Promise<string[]> {
  if (dialect === 'mysql') {
    const names = await columnInCopy(folder, 'migrations', 'name')
    return names.filter((name) => name !== null)
  }
  try {
    const copy = new Sqlite(join(folder, SQLITE_FILE), { readonly: true, fileMustExist: true })
    try {
      return copy.prepare('SELECT name FROM migrations').pluck().all() as string[]
    } finally {
      copy.close()
    }
  } catch (error) {
    throw storeFault(error)
  }
}

/** Returns the reason why a copy cannot be restored into this database; empty if it can be restored. */
export async function inTheWay(url: string): Promise<string> {
  const address = parseDatabaseUrl(url)
  if (address.dialect === 'sqlite') {
    const found = [address.path, `${address.path}-wal`].find((path) => existsSync(path))
    return found ?? ''
  }
  const tables = await tablesOnServer(url)
  return tables.length === 0 ? '' : `the tables ${tables.slice(0, 5).join(', ')}`
}

/** Restores a copy into a database for which `inTheWay` returned an empty text. */
export async function fillDatabase(url: string, folder: string): Promise<void> {
  const address = parseDatabaseUrl(url)
  if (address.dialect === 'mysql') return fillServer(url, folder)
  mkdirSync(dirname(address.path), { recursive: true })
  copyFileSync(join(folder, SQLITE_FILE), address.path)
}
