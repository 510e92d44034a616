import type { Value } from './columns.ts'

/** Writes lists of rows inside a transaction; how, is the dialect's own matter. */
export type BulkWriter = {
  readonly insertMarkets: (rows: readonly Value[][]) => Promise<void>
  readonly insertOrders: (rows: readonly Value[][]) => Promise<void>
  readonly insertTrades: (rows: readonly Value[][]) => Promise<void>
  /** Both answer how many rows they found. */
  readonly updateOrders: (changes: readonly Value[][]) => Promise<number>
  readonly updateTrades: (changes: readonly Value[][]) => Promise<number>
}
