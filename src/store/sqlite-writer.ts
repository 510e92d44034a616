/**
 * The bulk writes of the projection on SQLite. There is no round trip to save, so the quickest way is
 * one prepared statement run once a row, on the very connection that the open transaction is on.
 */

import type { AbstractSqlConnection } from '@mikro-orm/mysql'
import type { SqliteConnection } from '@mikro-orm/sqlite'
import type { BulkWriter } from './bulk-writer.ts'
import {
  type Columns,
  MARKET_COLUMNS,
  ORDER_CHANGE_COLUMNS,
  ORDER_COLUMNS,
  TRADE_CHANGE_COLUMNS,
  TRADE_COLUMNS,
  type Value,
} from './columns.ts'
import { bytesOf } from './hex.ts'

type File = Awaited<ReturnType<SqliteConnection['getNativeClient']>>

type Bound = Value | Buffer

const writers = new WeakMap<File, BulkWriter>()

export async function sqliteWriter(connection: AbstractSqlConnection): Promise<BulkWriter> {
  const file = await (connection as unknown as SqliteConnection).getNativeClient()
  let writer = writers.get(file)
  if (writer === undefined) {
    writer = prepare(file)
    writers.set(file, writer)
  }
  return writer
}

function prepare(file: File): BulkWriter {
  const insert = (table: string, columns: Columns) => {
    const names = Object.keys(columns)
    const statement = file.prepare<[Bound[]]>(
      `insert into ${table} (${names.join(', ')}) values (${names.map(() => '?').join(', ')})`,
    )
    const bind = binder(columns)
    return async (rows: readonly Value[][]) => {
      for (const row of rows) statement.run(bind(row))
    }
  }
  const update = (sql: string, columns: Columns) => {
    const statement = file.prepare<[Bound[]]>(sql)
    const bind = binder(columns)
    return async (changes: readonly Value[][]) => {
      let found = 0
      for (const change of changes) found += statement.run(bind(change)).changes
      return found
    }
  }
  return {
    insertMarkets: insert('markets', MARKET_COLUMNS),
    insertOrders: insert('orders', ORDER_COLUMNS),
    insertTrades: insert('trades', TRADE_COLUMNS),
    updateOrders: update(
      `update orders set status = ?, remaining_e6 = ?, updated_at_ms = ?, last_seq = ?
        where order_hash = ?`,
      ORDER_CHANGE_COLUMNS,
    ),
    updateTrades: update(
      `update trades set status = ?, pending = ?, tx_hash = coalesce(?, tx_hash), reason = ?,
          attempts = attempts + ?, failed_at_ms = ?, updated_at_ms = ?
        where market_id = ? and seq = ? and fill_index = ?`,
      TRADE_CHANGE_COLUMNS,
    ),
  }
}

/** Puts the values of a row as SQLite takes them into one array that is used again for the next. */
function binder(columns: Columns): (row: readonly Value[]) => Bound[] {
  const isHex = Object.values(columns).map((kind) => kind === 'hex')
  const bound: Bound[] = Array(isHex.length).fill(null)
  return (row) => {
    for (let index = 0; index < isHex.length; index++) {
      const value = row[index]!
      bound[index] = isHex[index] && value !== null ? bytesOf(value as string) : value
    }
    return bound
  }
}
