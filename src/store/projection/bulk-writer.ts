/** What the projection asks of a dialect: to write lists of rows inside its open transaction. */

import type { TradeStatus } from '#domain/trade.ts'
import type { Value } from './columns.ts'

/** A trade that is about to change, as it lies in the database. */
export type StoredTrade = {
  readonly market_id: Buffer
  readonly seq: number | string
  readonly fill_index: number
  readonly chain_id: number | string
  readonly outcome: number
  readonly price_e6: number
  readonly cost_e6: number | string
  readonly matched_at_ms: number | string
  readonly status: TradeStatus
}

export type BulkWriter = {
  readonly insertMarkets: (rows: readonly Value[][]) => Promise<void>
  readonly insertOrders: (rows: readonly Value[][]) => Promise<void>
  readonly insertTrades: (rows: readonly Value[][]) => Promise<void>
  /** Both answer how many rows they found. */
  readonly updateOrders: (changes: readonly Value[][]) => Promise<number>
  readonly updateTrades: (changes: readonly Value[][]) => Promise<number>
  /** The trades of these keys. */
  readonly tradesOf: (keys: readonly Value[][]) => Promise<StoredTrade[]>
  /** Each adds to the row of its key, or makes one. */
  readonly addMarketStats: (rows: readonly Value[][]) => Promise<void>
  readonly addChainStats: (rows: readonly Value[][]) => Promise<void>
  readonly addChainSpans: (rows: readonly Value[][]) => Promise<void>
  /** Prices of later trades than those that the rows hold. */
  readonly addCandles: (rows: readonly Value[][]) => Promise<void>
  /** Answers how many were not known. */
  readonly addTraders: (rows: readonly Value[][]) => Promise<number>
}
