/** Runs SQL statements inside an open transaction, for tables without an entity. */

import type { QueryResult, Transaction } from '@mikro-orm/core'
import type { AbstractSqlConnection } from '@mikro-orm/mysql'
import { partsOf } from '#domain/parts-of.ts'
import type { Database } from './database.ts'

export type Row = Record<string, string | number | Buffer | null>

export type Statements = {
  readonly isMysql: boolean
  run(sql: string, values: readonly (string | number | Buffer | null)[]): Promise<number>
  all<R>(sql: string, values: readonly (string | number | Buffer)[]): Promise<R[]>
  /** Inserts many rows with the same columns. `tail` is appended to each statement. */
  insert(table: string, rows: readonly Row[], tail?: string): Promise<void>
}

/** Maximum number of rows per statement. */
const ROWS_MAX = 200

export function statements(
  database: Database,
  connection: AbstractSqlConnection,
  transaction: Transaction,
): Statements {
  const run: Statements['run'] = async (sql, values) =>
    (await connection.execute<QueryResult>(sql, [...values], 'run', transaction)).affectedRows
  return {
    isMysql: database.address.dialect === 'mysql',
    run,
    all: <R>(sql: string, values: readonly (string | number | Buffer)[]) =>
      connection.execute<R[]>(sql, [...values], 'all', transaction),
    async insert(table, rows, tail = '') {
      const names = Object.keys(rows[0] ?? {})
      const marks = `(${names.map(() => '?').join(', ')})`
      for (const part of partsOf(rows, ROWS_MAX)) {
        await run(
          `insert into ${table} (${names.join(', ')}) values ${part.map(() => marks).join(', ')}${tail}`,
          part.flatMap((row) => names.map((name) => row[name] ?? null)),
        )
      }
    },
  }
}
