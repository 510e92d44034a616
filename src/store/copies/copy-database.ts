/**
 * Copies a whole database as it is at one instant, while an exchange may write it, and puts a copy into an
 * empty one. SQLite makes a file of it by itself; of a server, each table is read in one transaction into a
 * file of its own.
 */

import { copyFileSync, existsSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import Sqlite from 'better-sqlite3'
import { Fault } from '#domain/fault.ts'
import { type DatabaseAddress, parseDatabaseUrl } from '../engine/database-url.ts'
import { storeFault } from '../engine/store-fault.ts'
import { dumpServer, fillServer, tablesOnServer } from './server-copy.ts'

export type Dialect = DatabaseAddress['dialect']

const SQLITE_FILE = 'sibyl.db'

/** Into a folder that is there and empty. */
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

/** What is in the way of a copy that would be put here; empty if nothing is. */
export async function inTheWay(url: string): Promise<string> {
  const address = parseDatabaseUrl(url)
  if (address.dialect === 'sqlite') {
    const found = [address.path, `${address.path}-wal`].find((path) => existsSync(path))
    return found ?? ''
  }
  const tables = await tablesOnServer(url)
  return tables.length === 0 ? '' : `the tables ${tables.slice(0, 5).join(', ')}`
}

/** Into a database where nothing is in the way. */
export async function fillDatabase(url: string, folder: string): Promise<void> {
  const address = parseDatabaseUrl(url)
  if (address.dialect === 'mysql') return fillServer(url, folder)
  mkdirSync(dirname(address.path), { recursive: true })
  copyFileSync(join(folder, SQLITE_FILE), address.path)
}
