/**
 * Bulk writes of the projection on SQLite. There are no round trips to save, so the fastest way is one prepared
 * statement that runs once per row, on the connection of the open transaction.
 */

import type { AbstractSqlConnection } from '@mikro-orm/mysql'
import type { SqliteConnection } from '@mikro-orm/sqlite'
import { bytesOf, fillBytes } from '../engine/hex.ts'
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

type File = Awaited<ReturnType<SqliteConnection['getNativeClient']>>

type Bound = Value | Buffer

const SUMS = ['volume_whole', 'volume_millionths', 'trades']
const CHAIN_SUMS = [...SUMS, 'pending', 'traders', 'markets', 'markets_closed', 'markets_resolved']

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
  const insertInto = (table: string, columns: Columns, otherwise = '') => {
    const names = Object.keys(columns)
    const statement = file.prepare<[Bound[]]>(
      `insert into ${table} (${names.join(', ')}) values (${names.map(() => '?').join(', ')})
        ${otherwise}`,
    )
    const bind = binder(columns)
    return (row: readonly Value[]) => statement.run(bind(row)).changes
  }
  const insert = (table: string, columns: Columns, otherwise = '') => {
    const run = insertInto(table, columns, otherwise)
    return async (rows: readonly Value[][]) => {
      for (const row of rows) run(row)
    }
  }
  /** Inserts a row. If its key exists, adds the row's value of each column in `sums` to the existing row. */
  const add = (table: string, columns: Columns, key: string, sums: readonly string[]) =>
    insert(
      table,
      columns,
      `on conflict (${key}) do update set
        ${sums.map((sum) => `${sum} = ${sum} + excluded.${sum}`).join(', ')}`,
    )
  const update = (sql: string, columns: Columns) => {
    const statement = file.prepare<[Bound[]]>(sql)
    const bind = binder(columns)
    return async (changes: readonly Value[][]) => {
      let found = 0
      for (const change of changes) found += statement.run(bind(change)).changes
      return found
    }
  }
  const findTrade = file.prepare<[Bound[]], StoredTrade>(
    `select market_id, seq, fill_index, chain_id, outcome, price_e6, cost_e6, matched_at_ms, status
      from trades where market_id = ? and seq = ? and fill_index = ?`,
  )
  const bindKey = binder(TRADE_KEY_COLUMNS)
  const addTrader = insertInto('traders', TRADER_COLUMNS, 'on conflict do nothing')
  return {
    insertMarkets: insert('markets', MARKET_COLUMNS),
    insertOrders: insert('orders', ORDER_COLUMNS),
    insertOrderTags: insert('order_tags', ORDER_TAGS_COLUMNS),
    insertTrades: insert('trades', TRADE_COLUMNS),
    updateOrders: update(
      `update orders set status = ?, remaining_e6 = ?, updated_at_ms = ?, last_seq = ?
        where order_hash = ?`,
      ORDER_CHANGE_COLUMNS,
    ),
    updateTrades: update(
      `update trades set status = ?, pending = ?, tx_hash = coalesce(?, tx_hash), reason = ?,
          attempts = attempts + ?, failed_at_ms = ?, updated_at_ms = ?, fault = ?
        where market_id = ? and seq = ? and fill_index = ?`,
      TRADE_CHANGE_COLUMNS,
    ),
    async tradesOf(keys) {
      return keys.flatMap((key) => findTrade.get(bindKey(key)) ?? [])
    },
    addMarketStats: add('market_stats', MARKET_STATS_COLUMNS, 'market_id', SUMS),
    addChainStats: add('chain_stats', CHAIN_STATS_COLUMNS, 'chain_id, log_partition', CHAIN_SUMS),
    addChainSpans: add(
      'chain_spans',
      CHAIN_SPAN_COLUMNS,
      'chain_id, span_sec, start_sec, log_partition',
      SUMS,
    ),
    addCandles: insert(
      'candles',
      CANDLE_COLUMNS,
      `on conflict (market_id, outcome, span_sec, start_sec) do update set
        high_e6 = max(high_e6, excluded.high_e6), low_e6 = min(low_e6, excluded.low_e6),
        close_e6 = excluded.close_e6, last_seq = excluded.last_seq, last_fill = excluded.last_fill,
        volume_whole = volume_whole + excluded.volume_whole,
        volume_millionths = volume_millionths + excluded.volume_millionths,
        trades = trades + excluded.trades`,
    ),
    async addTraders(rows) {
      let fresh = 0
      for (const row of rows) fresh += addTrader(row)
      return fresh
    },
  }
}

/**
 * Makes a function that converts the values of a row for SQLite. The function returns the same array for
 * every row.
 */
function binder(columns: Columns): (row: readonly Value[]) => Bound[] {
  const kept = Object.values(columns).map((kind) => (kind === 'hex' ? keptBytes() : undefined))
  const bound: Bound[] = Array(kept.length).fill(null)
  return (row) => {
    for (let index = 0; index < kept.length; index++) {
      const value = row[index]!
      const bytesIn = kept[index]
      bound[index] = bytesIn === undefined || value === null ? value : bytesIn(value as string)
    }
    return bound
  }
}

/**
 * Makes a function that converts a column's hex into a buffer. The buffer is reused for every row, because
 * SQLite copies the bytes. A value equal to the previous value is not converted again.
 */
function keptBytes(): (hex: string) => Buffer {
  let text = ''
  let bytes: Buffer = Buffer.alloc(0)
  return (hex) => {
    if (hex === text) return bytes
    text = ''
    if (bytes.length * 2 === hex.length - 2) fillBytes(bytes, hex)
    else bytes = bytesOf(hex)
    text = hex
    return bytes
  }
}
