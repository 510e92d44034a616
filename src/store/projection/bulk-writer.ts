/**
 * Interface through which the projection writes lists of rows inside the open transaction; each SQL dialect has its own
 * implementation.
 */

import type { TradeStatus } from '#domain/trade.ts'
import type { Value } from './columns.ts'

/** Stored state of a trade that is about to change. */
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
  readonly insertOrderTags: (rows: readonly Value[][]) => Promise<void>
  readonly insertTrades: (rows: readonly Value[][]) => Promise<void>
  /** `updateOrders` and `updateTrades` return the number of rows that they found. */
  readonly updateOrders: (changes: readonly Value[][]) => Promise<number>
  readonly updateTrades: (changes: readonly Value[][]) => Promise<number>
  /** Returns the trades with these keys. */
  readonly tradesOf: (keys: readonly Value[][]) => Promise<StoredTrade[]>
  /** Each `add` function adds the values to the row with the same key, or inserts a row if there is none. */
  readonly addMarketStats: (rows: readonly Value[][]) => Promise<void>
  readonly addChainStats: (rows: readonly Value[][]) => Promise<void>
  readonly addChainSpans: (rows: readonly Value[][]) => Promise<void>
  /**
   * The added trades must be later than the trades in the stored candles, because their last price becomes the close.
   */
  readonly addCandles: (rows: readonly Value[][]) => Promise<void>
  /** Returns the number of new traders. */
  readonly addTraders: (rows: readonly Value[][]) => Promise<number>
}
