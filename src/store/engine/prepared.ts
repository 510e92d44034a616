/**
 * Reads whose statements are prepared once. The ORM writes the values into the text, so that SQLite
 * reads and plans every statement anew: a quarter of what a query thread did. Here a connection that
 * only reads keeps what it has prepared, and the values are bound.
 */

import type { SqliteConnection } from '@mikro-orm/sqlite'
import type { Statement } from 'better-sqlite3'
import { type Database, read, sqlConnection } from './database.ts'
import { storeFault } from './store-fault.ts'

type Value = number | string | Buffer
type Prepared = Map<string, Statement<Value[]>>

/** Statements that one connection keeps; the texts of the store are fewer. */
const STATEMENTS_MAX = 100

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

/** To be called before a snapshot begins; what it answers, when it is over. */
export function beginSnapshot(database: Database): () => void {
  const change = (by: number): void => {
    snapshots.set(database, (snapshots.get(database) ?? 0) + by)
  }
  change(1)
  return () => change(-1)
}

async function prepare(database: Database, sql: string): Promise<Statement<Value[]>> {
  const connection: unknown = sqlConnection(database)
  const file = await (connection as SqliteConnection).getNativeClient()
  const statement = file.prepare<Value[]>(sql)
  const known: Prepared = prepared.get(database) ?? new Map()
  prepared.set(database, known)
  known.set(sql, statement)
  for (const oldest of known.keys()) {
    if (known.size <= STATEMENTS_MAX) break
    known.delete(oldest)
  }
  return statement
}
