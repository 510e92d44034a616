/**
 * Bulk writes of the projection on MySQL and MariaDB, where round trips cost the most. Many rows are inserted per
 * statement, and changes are sent as one JSON document that is joined to the table. The next statement is built while
 * the server works on the previous one.
 */

import type { QueryResult, Transaction } from '@mikro-orm/core'
import type { AbstractSqlConnection } from '@mikro-orm/mysql'
import { hexDigits } from '../engine/hex.ts'
import type { BulkWriter, StoredTrade } from './bulk-writer.ts'
import {
  CANDLE_COLUMNS,
  CHAIN_SPAN_COLUMNS,
  CHAIN_STATS_COLUMNS,
  type Columns,
  MARKET_COLUMNS,
  MARKET_STATS_COLUMNS,
  ORDER_CHANGE_COLUMNS,
  ORDER_COLUMNS,
  ORDER_TAGS_COLUMNS,
  TRADE_CHANGE_COLUMNS,
  TRADE_COLUMNS,
  TRADE_KEY_COLUMNS,
  TRADER_COLUMNS,
  type Value,
} from './columns.ts'

/**
 * Maximum number of rows per statement. A statement of this size has a few hundred kilobytes, well below the smallest
 * default packet limit.
 */
const ROWS_MAX = 500

/** Maximum number of markets per statement: one, because a market's texts can be long. */
const MARKETS_MAX = 1

const UPDATE_ORDERS = `update json_table(?, '$[*]' columns (
    status varchar(16) character set ascii path '$[0]',
    remaining_e6 bigint path '$[1]',
    updated_at_ms bigint path '$[2]',
    last_seq bigint path '$[3]',
    order_hash char(64) character set ascii path '$[4]'
  )) as c straight_join orders as o on o.order_hash = unhex(c.order_hash)
  set o.status = c.status, o.remaining_e6 = c.remaining_e6,
    o.updated_at_ms = c.updated_at_ms, o.last_seq = c.last_seq`

const UPDATE_TRADES = `update json_table(?, '$[*]' columns (
    status varchar(16) character set ascii path '$[0]',
    pending int path '$[1]',
    tx_hash char(64) character set ascii path '$[2]',
    reason varchar(1024) character set utf8mb4 path '$[3]',
    attempts int path '$[4]',
    failed_at_ms bigint path '$[5]',
    updated_at_ms bigint path '$[6]',
    fault varchar(16) character set ascii path '$[7]',
    market_id char(64) character set ascii path '$[8]',
    seq bigint path '$[9]',
    fill_index int path '$[10]'
  )) as c straight_join trades as t
    on t.market_id = unhex(c.market_id) and t.seq = c.seq and t.fill_index = c.fill_index
  set t.status = c.status, t.pending = c.pending, t.tx_hash = coalesce(unhex(c.tx_hash), t.tx_hash),
    t.reason = c.reason, t.attempts = t.attempts + c.attempts, t.failed_at_ms = c.failed_at_ms,
    t.updated_at_ms = c.updated_at_ms, t.fault = c.fault`

const SELECT_TRADES = `select t.market_id, t.seq, t.fill_index, t.chain_id, t.outcome, t.price_e6,
    t.cost_e6, t.matched_at_ms, t.status
  from json_table(?, '$[*]' columns (
    market_id char(64) character set ascii path '$[0]',
    seq bigint path '$[1]',
    fill_index int path '$[2]'
  )) as c straight_join trades as t
    on t.market_id = unhex(c.market_id) and t.seq = c.seq and t.fill_index = c.fill_index`

const SUMS = ['volume_whole', 'volume_millionths', 'trades']
const CHAIN_SUMS = [...SUMS, 'pending', 'traders', 'markets', 'markets_closed', 'markets_resolved']

/** Returns the SQL clause that adds the values to the existing row. */
function added(sums: readonly string[]): string {
  const each = sums.map((sum) => `${sum} = ${sum} + values(${sum})`)
  return ` on duplicate key update ${each.join(', ')}`
}

const LATER_PRICES = `${added(SUMS)},
  high_e6 = greatest(high_e6, values(high_e6)), low_e6 = least(low_e6, values(low_e6)),
  close_e6 = values(close_e6), last_seq = values(last_seq), last_fill = values(last_fill)`

export async function mysqlWriter(
  connection: AbstractSqlConnection,
  transaction: Transaction,
): Promise<BulkWriter> {
  const platform = connection.getPlatform()
  const run = async (sql: string, values: readonly unknown[]) => {
    const result = await connection.execute<QueryResult>(sql, values, 'run', transaction)
    return result.affectedRows
  }
  const literal = (value: Value, isHex: boolean): string => {
    if (value === null) return 'null'
    if (typeof value === 'number') return String(value)
    return isHex ? `0x${hexDigits(value)}` : String(platform.quoteValue(value))
  }
  const insert = (
    table: string,
    columns: Columns,
    rowsMax: number,
    { how = 'insert into', otherwise = '' } = {},
  ) => {
    const head = `${how} ${table} (${Object.keys(columns).join(', ')}) values `
    const isHex = Object.values(columns).map((kind) => kind === 'hex')
    return async (rows: readonly Value[][]) => {
      let inserted = 0
      let before: Promise<number> = Promise.resolve(0)
      for (let start = 0; start < rows.length; start += rowsMax) {
        let sql = head
        const end = Math.min(start + rowsMax, rows.length)
        for (let row = start; row < end; row++) {
          const values = rows[row]!
          sql += row === start ? '(' : ',('
          for (let column = 0; column < isHex.length; column++) {
            if (column > 0) sql += ','
            sql += literal(values[column]!, isHex[column]!)
          }
          sql += ')'
        }
        inserted += await before
        before = run(sql + otherwise, [])
      }
      return inserted + (await before)
    }
  }
  const parts = function* (rows: readonly Value[][], columns: Columns) {
    const isHex = Object.values(columns).map((kind) => kind === 'hex')
    for (let start = 0; start < rows.length; start += ROWS_MAX) {
      yield rows
        .slice(start, start + ROWS_MAX)
        .map((row) =>
          row.map((value, column) =>
            isHex[column] && value !== null ? hexDigits(value as string) : value,
          ),
        )
    }
  }
  const insertOnly = (...how: Parameters<typeof insert>) => {
    const write = insert(...how)
    return async (rows: readonly Value[][]) => void (await write(rows))
  }
  const update = (sql: string, columns: Columns) => async (changes: readonly Value[][]) => {
    let found = 0
    for (const part of parts(changes, columns)) found += await run(sql, [JSON.stringify(part)])
    return found
  }
  return {
    insertMarkets: insertOnly('markets', MARKET_COLUMNS, MARKETS_MAX),
    insertOrders: insertOnly('orders', ORDER_COLUMNS, ROWS_MAX),
    insertOrderTags: insertOnly('order_tags', ORDER_TAGS_COLUMNS, ROWS_MAX),
    insertTrades: insertOnly('trades', TRADE_COLUMNS, ROWS_MAX),
    updateOrders: update(UPDATE_ORDERS, ORDER_CHANGE_COLUMNS),
    updateTrades: update(UPDATE_TRADES, TRADE_CHANGE_COLUMNS),
    async tradesOf(keys) {
      const found: StoredTrade[] = []
      for (const part of parts(keys, TRADE_KEY_COLUMNS)) {
        const values = [JSON.stringify(part)]
        found.push(
          ...(await connection.execute<StoredTrade[]>(SELECT_TRADES, values, 'all', transaction)),
        )
      }
      return found
    },
    addMarketStats: insertOnly('market_stats', MARKET_STATS_COLUMNS, ROWS_MAX, {
      otherwise: added(SUMS),
    }),
    addChainStats: insertOnly('chain_stats', CHAIN_STATS_COLUMNS, ROWS_MAX, {
      otherwise: added(CHAIN_SUMS),
    }),
    addChainSpans: insertOnly('chain_spans', CHAIN_SPAN_COLUMNS, ROWS_MAX, {
      otherwise: added(SUMS),
    }),
    addCandles: insertOnly('candles', CANDLE_COLUMNS, ROWS_MAX, { otherwise: LATER_PRICES }),
    addTraders: insert('traders', TRADER_COLUMNS, ROWS_MAX, { how: 'insert ignore into' }),
  }
}
