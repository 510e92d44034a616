/**
 * Writes the statistics that queries read, such as volumes and candles, for a database whose trades were inserted
 * directly.
 */

import type { QueryResult } from '@mikro-orm/core'
import type { MarketId } from '#domain/ids.ts'
import { type Database, transact } from '#store/engine/database.ts'
import type { BulkWriter } from '#store/projection/bulk-writer.ts'
import type { Value } from '#store/projection/columns.ts'
import { mysqlWriter } from '#store/projection/mysql-writer.ts'
import { type ChainCount, recount } from '#store/projection/recount.ts'
import { MINUTE_SEC } from '#store/projection/spans.ts'
import { sqliteWriter } from '#store/projection/sqlite-writer.ts'
import { candleValues, marketStatsValues, spanValues, type Tally } from '#store/projection/tally.ts'

/** Writes the sums. If the database has no markets or already has sums, writes nothing and returns false. */
export async function fillSums(database: Database): Promise<boolean> {
  return transact(database, async (transaction, connection) => {
    const sql = { connection, transaction }
    const found = async (table: string) =>
      (await connection.execute(`select 1 from ${table} limit 1`, [], 'all', transaction)).length
    if ((await found('markets')) === 0 || (await found('chain_stats')) > 0) return false
    for (const table of ['market_stats', 'candles', 'chain_spans', 'traders']) {
      await connection.execute<QueryResult>(`delete from ${table}`, [], 'run', transaction)
    }
    const writer = await (database.address.dialect === 'sqlite'
      ? sqliteWriter(connection)
      : mysqlWriter(connection, transaction))
    const chains = await recount(sql, (marketId, tally) => writeMarket(writer, marketId, tally))
    for (const [chainId, chain] of chains) await writeChain(writer, chainId, chain)
    return true
  })
}

async function writeMarket(writer: BulkWriter, marketId: MarketId, tally: Tally): Promise<void> {
  const stats = tally.markets.get(marketId)
  if (stats === undefined) return
  await writer.addMarketStats([marketStatsValues(marketId, stats)])
  await writer.addCandles([...tally.candles.values()].map(candleValues))
}

/** Writes all sums under partition 0. Reads use only the sum over all partitions, so the partition does not matter. */
async function writeChain(writer: BulkWriter, chainId: number, chain: ChainCount): Promise<void> {
  const { spans, traders, trades, pending, markets, closed, resolved } = chain
  await writer.addChainSpans([...spans.values()].map((span) => spanValues(span, 0)))
  const fresh = await writer.addTraders(
    [...traders].sort().map((trader) => [chainId, trader] as Value[]),
  )
  const volume = { whole: 0, millionths: 0 }
  for (const span of spans.values()) {
    if (span.spanSec !== MINUTE_SEC) continue
    volume.whole += span.volume.whole
    volume.millionths += span.volume.millionths
  }
  const sums = [volume.whole, volume.millionths, trades, pending, fresh]
  await writer.addChainStats([[chainId, 0, ...sums, markets, closed, resolved]])
}
