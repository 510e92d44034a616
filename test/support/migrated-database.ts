/**
 * Makes a database with the schema of this version and without rows. Either runs the migrations, or empties a database
 * of an earlier test. On a server the migrations take seconds, because the server syncs a file for each table.
 */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { closeDatabase, sqlConnection, transact } from '#store/engine/database.ts'
import { migrationsOf } from '#store/migrations/list.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'

const TABLES =
  'select table_name as name from information_schema.tables ' +
  "where table_schema = database() and table_name <> 'migrations'"

/** Runs the migrations on an empty database. */
export async function migrateNew(url: string): Promise<void> {
  const database = await openDatabase(url)
  await migrate(database).finally(() => closeDatabase(database))
}

let template: Promise<Buffer> | undefined

/** Makes a database in a file. The migrations run once per process; later files are copies. */
export async function makeMigratedFile(path: string): Promise<void> {
  template ??= makeTemplate()
  writeFileSync(path, await template)
}

async function makeTemplate(): Promise<Buffer> {
  const folder = mkdtempSync(join(tmpdir(), 'sibyl-template-'))
  try {
    const path = join(folder, 'template.db')
    await migrateNew(`sqlite:${path}`)
    return readFileSync(path)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Empties a database on a server; returns false if a test has changed its schema. */
export async function emptied(url: string): Promise<boolean> {
  const database = await openDatabase(url)
  try {
    const connection = sqlConnection(database)
    const known = await connection.execute<{ name: string }[]>('select name from migrations')
    const names = new Set(migrationsOf('mysql').map(({ name }) => name))
    if (known.length !== names.size || !known.every(({ name }) => names.has(name))) return false
    const tables = await connection.execute<{ name: string }[]>(TABLES)
    await transact(database, async (transaction) => {
      for (const { name } of tables) {
        await connection.execute(`delete from ${name}`, [], 'run', transaction)
      }
    })
    return true
  } finally {
    await closeDatabase(database)
  }
}
