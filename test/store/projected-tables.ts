/** Reads what the projection wrote, in a form that does not depend on the number of writers and batches. */

import { type Database, sqlConnection } from '#store/engine/database.ts'

/**
 * Excludes rows of zeros. A trade that is undone in a later batch leaves a row of zeros, but a trade that is undone in
 * its own batch leaves no row.
 */
const ANY = 'where trades <> 0 or volume_whole <> 0 or volume_millionths <> 0'

const TABLES: Readonly<Record<string, string>> = {
  checkpoints: 'select * from checkpoints',
  markets: 'select * from markets',
  orders: 'select * from orders',
  trades: 'select * from trades',
  market_stats: `select * from market_stats ${ANY}`,
  candles: 'select * from candles',
  chain_spans: `select * from chain_spans ${ANY}`,
  traders: 'select * from traders',
  // A trader is counted only in the partition of their first trade. That partition depends on the order of the batches,
  // so the partitions are summed.
  chain_stats: `select chain_id, sum(volume_whole), sum(volume_millionths), sum(trades), sum(pending),
      sum(traders), sum(markets), sum(markets_closed), sum(markets_resolved)
    from chain_stats group by chain_id`,
}

/** Returns the rows of each table, sorted. */
export async function projectedTables(database: Database): Promise<Record<string, string[]>> {
  const tables: Record<string, string[]> = {}
  for (const [table, statement] of Object.entries(TABLES)) {
    const rows = await sqlConnection(database).execute<Record<string, unknown>[]>(statement)
    tables[table] = rows.map(({ row_no: _, ...row }) => JSON.stringify(row)).sort()
  }
  return tables
}
