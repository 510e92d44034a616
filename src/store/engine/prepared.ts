/**
 * Prepared reads. The ORM writes values into the statement, so SQLite parses and plans every statement again, which
 * takes a quarter of a query thread's time. Here a read-only connection keeps its prepared statements and binds the
 * values.
 */

import type { SqliteConnection } from '@mikro-orm/sqlite'
import type { Database as DatabaseFile, Statement } from 'better-sqlite3'
import { remember } from '#domain/remember.ts'
import { type Database, read, sqlConnection } from './database.ts'
import { storeFault } from './store-fault.ts'

type Value = number | string | Buffer
type Prepared = Map<string, Statement<Value[]>>

/** Maximum number of prepared statements per connection; the store uses fewer statements. */
const STATEMENTS_MAX = 100

/**
 * Replaces each bound value by an expression such as `+?`, so that SQLite plans a statement only once. If a plan
 * depends on a bound value, SQLite plans the statement again when that value is bound. Planning takes longer than the
 * read. A plan depends on limits and, after `analyze`, on values in conditions, but never on expressions. Only SQLite
 * receives these statements, because MariaDB accepts no expression as a limit.
 */
function withHiddenValues(sql: string): string {
  return sql.replaceAll('limit ?', 'limit 0 + ?').replaceAll(/(?<!\+ )\?/g, '+?')
}

const prepared = new WeakMap<Database, Prepared>()
const snapshots = new WeakMap<Database, number>()

/** Returns all rows of a statement. */
export async function rowsOf<R>(
  database: Database,
  sql: string,
  values: readonly Value[],
): Promise<R[]> {
  const isOwn = database.address.dialect === 'sqlite' && database.readOnly
  // If a snapshot is open on this connection, a prepared read would see the snapshot's old state. So read through the
  // ORM, which waits until the snapshot ends.
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
 * Runs reads in one transaction on a read-only SQLite connection, because beginning and ending a read costs as much as
 * a short read. Until the transaction ends, other reads of the connection see the same instant, so `work` must be
 * short.
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

/**
 * Notes that a snapshot is open on this connection, so that other reads wait. Call this function before the snapshot
 * begins, and the returned function when the snapshot ends.
 */
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
  remember(known, sql, statement, STATEMENTS_MAX)
  return statement
}
