/**
 * The settlement thread's notes about unsettled trades. A note records how much of the trade's time limit has passed,
 * and whether the chain refused the trade. If the thread is killed, its successor reads the notes. A note is deleted
 * once its trade has ended.
 */

import { type MarketId, type TradeId, tradeId } from '#domain/ids.ts'
import type { FaultySide, TradeNote } from '#domain/trade.ts'
import { type Database, read, sqlConnection, transact } from '../engine/database.ts'
import { bytesOf, hexOf } from '../engine/hex.ts'
import { tradeKey } from '../projection/columns.ts'

type SettlementNotes = {
  readonly chainId: number
  readonly notes: readonly TradeNote[]
  /** Trades that have ended. */
  readonly ended: readonly TradeId[]
}

const REASON_CHARS_MAX = 1_000
const OF_TRADE = 'market_id = ? and seq = ? and fill_index = ?'

/**
 * Stores the notes of these trades in place of earlier ones, and deletes the notes of ended trades. Repeating the call
 * changes nothing.
 */
export async function noteTrades(
  database: Database,
  { chainId, notes, ended }: SettlementNotes,
): Promise<number> {
  return transact(database, async (transaction, connection) => {
    const run = (sql: string, values: readonly unknown[]) =>
      connection.execute(sql, [...values], 'run', transaction)
    for (const id of ended) await run(`delete from settlement_notes where ${OF_TRADE}`, keyOf(id))
    for (const { tradeId: id, reachableMs, retries, wastedGas, refusal } of notes) {
      await run(
        `replace into settlement_notes
          (market_id, seq, fill_index, chain_id, reachable_ms, retries, wasted_gas, fault, reason)
          values (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
        [
          ...keyOf(id),
          chainId,
          reachableMs,
          retries,
          wastedGas,
          refusal?.fault ?? null,
          refusal?.reason.slice(0, REASON_CHARS_MAX).toWellFormed() ?? null,
        ],
      )
    }
    return notes.length
  })
}

type Row = {
  readonly market_id: Uint8Array
  readonly seq: number | string
  readonly fill_index: number
  readonly reachable_ms: number | string
  readonly retries: number
  readonly wasted_gas: number | string
  readonly fault: FaultySide | null
  readonly reason: string | null
}

/** Returns the stored notes of these trades; most trades have no note. */
export async function notesOf(
  database: Database,
  { tradeIds }: { readonly tradeIds: readonly TradeId[] },
): Promise<TradeNote[]> {
  if (tradeIds.length === 0) return []
  const rows = await read(database, () =>
    sqlConnection(database).execute<Row[]>(
      `select * from settlement_notes where ${tradeIds.map(() => `(${OF_TRADE})`).join(' or ')}`,
      tradeIds.flatMap(keyOf),
      'all',
    ),
  )
  return rows.map((row) => ({
    tradeId: tradeId(hexOf(row.market_id) as MarketId, Number(row.seq), row.fill_index),
    reachableMs: Number(row.reachable_ms),
    retries: row.retries,
    wastedGas: Number(row.wasted_gas),
    ...(row.fault === null ? {} : { refusal: { fault: row.fault, reason: row.reason ?? '' } }),
  }))
}

function keyOf(id: TradeId) {
  const { marketId, sequence, fillIndex } = tradeKey(id)
  return [bytesOf(marketId), sequence, fillIndex] as const
}
