/**
 * The bulk writes of the projection on MySQL and MariaDB, where the round trip is what costs: rows
 * are inserted many to a statement, and changes go as one JSON document that is joined to the table.
 * The next statement is put together while the server works on the one before.
 */

import type { QueryResult, Transaction } from '@mikro-orm/core'
import type { AbstractSqlConnection } from '@mikro-orm/mysql'
import type { BulkWriter } from './bulk-writer.ts'
import { MARKET_COLUMNS, ORDER_COLUMNS, TRADE_COLUMNS, type Value } from './columns.ts'

/** Rows of one statement: a few hundred kilobytes, well below the smallest default packet limit. */
const ROWS_MAX = 500

/** A market's words can be long, so each has a statement to itself. */
const MARKETS_MAX = 1

const UPDATE_ORDERS = `update json_table(?, '$[*]' columns (
    status varchar(16) character set ascii path '$[0]',
    remaining_e6 bigint path '$[1]',
    updated_at_ms bigint path '$[2]',
    last_seq bigint path '$[3]',
    order_hash char(66) character set ascii collate ascii_bin path '$[4]'
  )) as c straight_join orders as o on o.order_hash = c.order_hash
  set o.status = c.status, o.remaining_e6 = c.remaining_e6,
    o.updated_at_ms = c.updated_at_ms, o.last_seq = c.last_seq`

const UPDATE_TRADES = `update json_table(?, '$[*]' columns (
    status varchar(16) character set ascii path '$[0]',
    pending int path '$[1]',
    tx_hash char(66) character set ascii path '$[2]',
    reason varchar(1024) character set utf8mb4 path '$[3]',
    attempts int path '$[4]',
    failed_at_ms bigint path '$[5]',
    updated_at_ms bigint path '$[6]',
    market_id char(66) character set ascii collate ascii_bin path '$[7]',
    seq bigint path '$[8]',
    fill_index int path '$[9]'
  )) as c straight_join trades as t
    on t.market_id = c.market_id and t.seq = c.seq and t.fill_index = c.fill_index
  set t.status = c.status, t.pending = c.pending, t.tx_hash = coalesce(c.tx_hash, t.tx_hash),
    t.reason = c.reason, t.attempts = t.attempts + c.attempts, t.failed_at_ms = c.failed_at_ms,
    t.updated_at_ms = c.updated_at_ms`

export async function mysqlWriter(
  connection: AbstractSqlConnection,
  transaction: Transaction,
): Promise<BulkWriter> {
  const run = async (sql: string, values: readonly unknown[]) => {
    const result = await connection.execute<QueryResult>(sql, values, 'run', transaction)
    return result.affectedRows
  }
  const insert = (table: string, columns: readonly string[], rowsMax: number) => {
    const row = `(${columns.map(() => '?').join(',')})`
    const head = `insert into ${table} (${columns.join(', ')}) values `
    return async (rows: readonly Value[][]) => {
      for (let start = 0; start < rows.length; start += rowsMax) {
        const part = rows.slice(start, start + rowsMax)
        await run(head + Array(part.length).fill(row).join(','), part.flat())
      }
    }
  }
  const update = (sql: string) => async (changes: readonly Value[][]) => {
    let found = 0
    for (let start = 0; start < changes.length; start += ROWS_MAX) {
      found += await run(sql, [JSON.stringify(changes.slice(start, start + ROWS_MAX))])
    }
    return found
  }
  return {
    insertMarkets: insert('markets', MARKET_COLUMNS, MARKETS_MAX),
    insertOrders: insert('orders', ORDER_COLUMNS, ROWS_MAX),
    insertTrades: insert('trades', TRADE_COLUMNS, ROWS_MAX),
    updateOrders: update(UPDATE_ORDERS),
    updateTrades: update(UPDATE_TRADES),
  }
}
