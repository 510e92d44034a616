/**
 * The bulk writes of the projection on SQLite. There is no round trip to save, so the quickest way is
 * one prepared statement run once a row, on the very connection that the open transaction is on.
 */

import type { AbstractSqlConnection } from '@mikro-orm/mysql'
import type { SqliteConnection } from '@mikro-orm/sqlite'
import type { BulkWriter } from './bulk-writer.ts'
import { MARKET_COLUMNS, ORDER_COLUMNS, TRADE_COLUMNS, type Value } from './columns.ts'

type File = Awaited<ReturnType<SqliteConnection['getNativeClient']>>

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
  const insert = (table: string, columns: readonly string[]) => {
    const statement = file.prepare<[Value[]]>(
      `insert into ${table} (${columns.join(', ')}) values (${columns.map(() => '?').join(', ')})`,
    )
    return async (rows: readonly Value[][]) => {
      for (const row of rows) statement.run(row)
    }
  }
  const update = (sql: string) => {
    const statement = file.prepare<[Value[]]>(sql)
    return async (changes: readonly Value[][]) => {
      let found = 0
      for (const change of changes) found += statement.run(change).changes
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
    ),
    updateTrades: update(
      `update trades set status = ?, pending = ?, tx_hash = coalesce(?, tx_hash), reason = ?,
          attempts = attempts + ?, failed_at_ms = ?, updated_at_ms = ?
        where market_id = ? and seq = ? and fill_index = ?`,
    ),
  }
}
