/** What the projection asks of a dialect: to write lists of rows inside its open transaction. */

import type { Value } from './columns.ts'

export type BulkWriter = {
  readonly insertMarkets: (rows: readonly Value[][]) => Promise<void>
  readonly insertOrders: (rows: readonly Value[][]) => Promise<void>
  readonly insertTrades: (rows: readonly Value[][]) => Promise<void>
  /** Both answer how many rows they found. */
  readonly updateOrders: (changes: readonly Value[][]) => Promise<number>
  readonly updateTrades: (changes: readonly Value[][]) => Promise<number>
}
