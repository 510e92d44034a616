/**
 * Reads whose statements are prepared once. The ORM writes the values into the text, so that SQLite
 * reads and plans every statement anew: a quarter of what a query thread did. Here a connection that
 * only reads keeps what it has prepared, and the values are bound.
 */

import type { SqliteConnection } from '@mikro-orm/sqlite'
import type { Database as DatabaseFile, Statement } from 'better-sqlite3'
import { type Database, read, sqlConnection } from './database.ts'
import { storeFault } from './store-fault.ts'

type Value = number | string | Buffer
type Prepared = Map<string, Statement<Value[]>>

/** Statements that one connection keeps; the texts of the store are fewer. */
const STATEMENTS_MAX = 100

/**
 * SQLite looks at bound values when it plans, those of limits and, after `analyze`, of conditions; so it plans
 * again whenever they are bound, which took longer than the reads. Into expressions it does not look. MariaDB
 * takes none as a limit.
 */
function withHiddenValues(sql: string): string {
  return sql.replaceAll('limit ?', 'limit 0 + ?').replaceAll(/(?<!\+ )\?/g, '+?')
}

const prepared = new WeakMap<Database, Prepared>()
const snapshots = new WeakMap<Database, number>()

/** All rows that a statement finds. */
export async function rowsOf<R>(
  database: Database,
  sql: string,
  values: readonly Value[],
): Promise<R[]> {
  const isOwn = database.address.dialect === 'sqlite' && database.readOnly
  // On the connection of an open snapshot it would see that instant, not this one: it waits its turn.
  if (!isOwn || (snapshots.get(database) ?? 0) > 0) {
    return read(database, () => sqlConnection(database).execute<R[]>(sql, [...values], 'all'))
  }
  try {
    const statement = prepared.get(database)?.get(sql) ?? (await prepare(database, sql))
    return statement.all(...values) as R[]
  } catch (error) {
    throw storeFault(error)
  }
}

/**
 * Reads that see one instant, on a connection that only reads a file: to begin and end a read costs as much as
 * a short one. What else the connection is asked meanwhile sees that instant too, so this is for short work.
 */
export async function readTogether<T>(database: Database, work: () => Promise<T>): Promise<T> {
  const isOwn = database.address.dialect === 'sqlite' && database.readOnly
  if (!isOwn || (snapshots.get(database) ?? 0) > 0) return work()
  const file = await fileOf(database)
  if (file.inTransaction) return work()
  file.exec('begin')
  try {
    return await work()
  } finally {
    if (file.inTransaction) file.exec('commit')
  }
}

/** To be called before a snapshot begins; what it answers, when it is over. */
export function beginSnapshot(database: Database): () => void {
  const change = (by: number): void => {
    snapshots.set(database, (snapshots.get(database) ?? 0) + by)
  }
  change(1)
  return () => change(-1)
}

async function fileOf(database: Database): Promise<DatabaseFile> {
  const connection: unknown = sqlConnection(database)
  return (connection as SqliteConnection).getNativeClient()
}

async function prepare(database: Database, sql: string): Promise<Statement<Value[]>> {
  const file = await fileOf(database)
  const statement = file.prepare<Value[]>(withHiddenValues(sql))
  const known: Prepared = prepared.get(database) ?? new Map()
  prepared.set(database, known)
  known.set(sql, statement)
  for (const oldest of known.keys()) {
    if (known.size <= STATEMENTS_MAX) break
    known.delete(oldest)
  }
  return statement
}
