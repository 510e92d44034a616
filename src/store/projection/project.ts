/**
 * Writes projection batches: rows, changes and the partition's checkpoint in one transaction. The transaction first
 * moves the checkpoint, but only if the checkpoint is at the start of the batch. So neither a second writer nor a
 * replay after a crash applies a batch twice, and a failed batch leaves nothing behind.
 */

import assert from 'node:assert/strict'
import type { QueryResult, Transaction } from '@mikro-orm/core'
import type { AbstractSqlConnection } from '@mikro-orm/mysql'
import { Fault } from '#domain/fault.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import { MARKETS_OPEN_MAX } from '#domain/limits.ts'
import { type Database, transact } from '../engine/database.ts'
import { bytesOf, hexOf } from '../engine/hex.ts'
import { isDeadlock } from '../engine/store-fault.ts'
import { type CollapsedBatch, collapse } from './collapse.ts'
import {
  marketValues,
  orderChangeValues,
  orderTagsValues,
  orderValues,
  tradeChangeValues,
  tradeValues,
} from './columns.ts'
import { mysqlWriter } from './mysql-writer.ts'
import { countClosing, type MarketCounts, tallyBatch, writeTally } from './project-stats.ts'
import type { MarketChange, ProjectionBatch, TradeRow } from './rows.ts'
import { sqliteWriter } from './sqlite-writer.ts'

/**
 * `already`: this call wrote nothing, because the checkpoint was past the start of the batch. An earlier call applied
 * this batch, or a larger batch with the same start whose commit was never acknowledged.
 */
export type Projected = {
  readonly written: 'applied' | 'already'
  /** Checkpoint of the partition in the database after the call. */
  readonly offset: number
}

export async function project(database: Database, batch: ProjectionBatch): Promise<Projected> {
  const [projected] = await projectTogether(database, [batch])
  assert(projected !== undefined)
  return projected
}

/**
 * Maximum number of attempts of a transaction that loses a deadlock each time. Deadlocks happen because partitions are
 * written in parallel, and several writers lock the same traders, gaps between index entries, and rows of closed
 * markets.
 */
export const DEADLOCKS_MAX = 5

/** Writes batches of different partitions in one transaction: all or none. */
export async function projectTogether(
  database: Database,
  batches: readonly ProjectionBatch[],
): Promise<Projected[]> {
  // Compute as much as possible before the transaction takes locks.
  const collapsed = batches.map((batch) => {
    assert(batch.to > batch.from, 'the end offset of a batch must be above its start offset')
    return { batch, collapsed: collapse(batch) }
  })
  for (let lost = 1; ; lost++) {
    try {
      return await projectCollapsed(database, collapsed)
    } catch (error) {
      if (lost === DEADLOCKS_MAX || !isDeadlock(error)) throw error
    }
  }
}

type Collapsed = { readonly batch: ProjectionBatch; readonly collapsed: CollapsedBatch }

async function projectCollapsed(
  database: Database,
  batches: readonly Collapsed[],
): Promise<Projected[]> {
  const traders: Traders = { known: tradersKnownTo(database), fresh: [] }
  const projected = await transact(database, async (transaction, connection) => {
    const sql = { connection, transaction }
    const ends: Projected[] = []
    for (const each of batches) ends.push(await projectOne(database, sql, each, traders))
    return ends
  })
  for (const [chainId, trader] of traders.fresh) traders.known.add(`${chainId}/${trader}`)
  return projected
}

type Sql = { readonly connection: AbstractSqlConnection; readonly transaction: Transaction }

type ChainTrader = readonly [chainId: number, trader: Address]

/** `known`: traders that the database already has. `fresh`: traders that this transaction adds. */
type Traders = { readonly known: Set<string>; readonly fresh: ChainTrader[] }

async function projectOne(
  database: Database,
  sql: Sql,
  { batch, collapsed }: Collapsed,
  { known, fresh }: Traders,
): Promise<Projected> {
  const { connection, transaction } = sql
  const { partition } = batch
  const offset = await moveCheckpoint(connection, transaction, batch)
  if (offset !== undefined) return { written: 'already', offset }
  const writer = await (database.address.dialect === 'sqlite'
    ? sqliteWriter(connection)
    : mysqlWriter(connection, transaction))
  const chainOf = await chainIds(database, connection, transaction, batch)
  const traders = unknownTraders(batch.trades, chainOf, known)
  fresh.push(...traders)
  const tally = await tallyBatch(writer, collapsed, chainOf)
  await writer.insertMarkets(batch.markets.map((row) => marketValues(row, partition)))
  await writer.insertOrders(
    collapsed.orders.map((row) => orderValues(row, chainOf(row.order.marketId), partition)),
  )
  await writer.insertOrderTags(collapsed.orders.flatMap(orderTagsValues))
  await writer.insertTrades(
    collapsed.trades.map((trade) => tradeValues(trade, chainOf(trade.marketId))),
  )
  const orderChanges = collapsed.orderChanges.map(orderChangeValues)
  expectAll('orders', orderChanges.length, await writer.updateOrders(orderChanges))
  const tradeChanges = collapsed.tradeChanges.map(tradeChangeValues)
  expectAll('trades', tradeChanges.length, await writer.updateTrades(tradeChanges))
  // `end-orders.ts` later ends the orders that are still open after the batch. A market never reopens, so this can
  // wait.
  const marketCounts = new Map<number, MarketCounts>()
  for (const { market } of batch.markets) countsOf(marketCounts, market.chainId).markets += 1
  for (const change of batch.marketChanges) {
    await closeMarket(connection, transaction, change, marketCounts)
  }
  await writeTally(sql, writer, { partition, tally, traders, marketCounts })
  return { written: 'applied', offset: batch.to }
}

/** Cache of traders that the database has, for all partitions that are written here. The cache avoids most inserts. */
const knownTraders = new WeakMap<Database['orm'], Set<string>>()
const KNOWN_TRADERS_MAX = 100_000

function tradersKnownTo({ orm }: Database): Set<string> {
  let known = knownTraders.get(orm)
  if (known === undefined || known.size >= KNOWN_TRADERS_MAX) {
    known = new Set()
    knownTraders.set(orm, known)
  }
  return known
}

/** Returns each trader of the batch once, except traders that are already known. */
function unknownTraders(
  trades: readonly TradeRow[],
  chainOf: (marketId: MarketId) => number,
  known: ReadonlySet<string>,
): ChainTrader[] {
  const found = new Map<string, ChainTrader>()
  for (const { marketId, buyer, seller } of trades) {
    const chainId = chainOf(marketId)
    for (const trader of [buyer, seller]) {
      const key = `${chainId}/${trader}`
      if (!known.has(key)) found.set(key, [chainId, trader])
    }
  }
  return [...found.values()]
}

function countsOf(counts: Map<number, MarketCounts>, chainId: number): MarketCounts {
  let known = counts.get(chainId)
  if (known === undefined) {
    known = { markets: 0, closed: 0, resolved: 0 }
    counts.set(chainId, known)
  }
  return known
}

/**
 * Moves the checkpoint from the start to the end of the batch. If the checkpoint is already past the start, changes
 * nothing and returns the checkpoint's offset.
 */
async function moveCheckpoint(
  connection: AbstractSqlConnection,
  transaction: Transaction,
  { logId, partition, from, to }: ProjectionBatch,
): Promise<number | undefined> {
  const moved = await run(
    connection,
    transaction,
    `update checkpoints set log_offset = ? where log_partition = ? and log_id = ? and log_offset = ?`,
    [to, partition, logId, from],
  )
  if (moved === 1) return undefined
  const found = await connection.execute<{ log_id: string; log_offset: number | string }[]>(
    'select log_id, log_offset from checkpoints where log_partition = ?',
    [partition],
    'all',
    transaction,
  )
  const row = found[0]
  if (row === undefined) {
    throw new Fault(
      'STORE_NO_CHECKPOINT',
      `the database has no checkpoint of log partition ${partition}`,
      { retryable: false },
    )
  }
  if (row.log_id !== logId) {
    throw new Fault('STORE_FOREIGN_LOG', 'the data in the database comes from another event log', {
      retryable: false,
    })
  }
  const offset = Number(row.log_offset)
  if (offset > from) return offset
  throw new Fault(
    'STORE_CHECKPOINT_MISMATCH',
    `the checkpoint of partition ${partition} in the database is at offset ${offset}, but must ` +
      `be at offset ${from} before the batch with offsets up to ${to} is written`,
    { retryable: false },
  )
}

/** Chain of each market of this database. The chain of a market never changes. */
const knownChains = new WeakMap<Database['orm'], Map<MarketId, number>>()

async function chainIds(
  { orm }: Database,
  connection: AbstractSqlConnection,
  transaction: Transaction,
  batch: ProjectionBatch,
): Promise<(marketId: MarketId) => number> {
  let known = knownChains.get(orm)
  if (known === undefined || known.size >= MARKETS_OPEN_MAX) {
    known = new Map()
    knownChains.set(orm, known)
  }
  for (const { market } of batch.markets) known.set(market.id, market.chainId)
  const unknown = new Set<MarketId>()
  for (const { order } of batch.orders) if (!known.has(order.marketId)) unknown.add(order.marketId)
  for (const { marketId } of batch.trades) if (!known.has(marketId)) unknown.add(marketId)
  if (unknown.size > 0) {
    const ids = [...unknown]
    const found = await connection.execute<{ market_id: Buffer; chain_id: number | string }[]>(
      `select market_id, chain_id from markets where market_id in (${ids.map(() => '?').join(',')})`,
      ids.map(bytesOf),
      'all',
      transaction,
    )
    expectAll('markets', ids.length, found.length)
    for (const row of found) known.set(hexOf(row.market_id) as MarketId, Number(row.chain_id))
  }
  return (marketId) => {
    const chainId = known.get(marketId)
    assert(chainId !== undefined)
    return chainId
  }
}

async function closeMarket(
  connection: AbstractSqlConnection,
  transaction: Transaction,
  change: MarketChange,
  counts: Map<number, MarketCounts>,
): Promise<void> {
  const { marketId, closed, seq, atMs } = change
  const [before] = await connection.execute<
    { chain_id: number | string; close_reason: string | null }[]
  >(
    'select chain_id, close_reason from markets where market_id = ?',
    [bytesOf(marketId)],
    'all',
    transaction,
  )
  if (before !== undefined) {
    countClosing(countsOf(counts, Number(before.chain_id)), before.close_reason, change)
  }
  const found = await run(
    connection,
    transaction,
    'update markets set close_reason = ?, closed_at_ms = ?, last_seq = ? where market_id = ?',
    [closed, atMs, seq, bytesOf(marketId)],
  )
  expectAll('markets', 1, found)
}

/** A changed row that does not exist means that the database does not match the log. */
function expectAll(table: string, expected: number, found: number): void {
  if (found === expected) return
  throw new Fault(
    'STORE_INCONSISTENT',
    `the log changes ${expected} rows of the table ${table}, but the database has only ${found} ` +
      'of these rows',
    { retryable: false },
  )
}

async function run(
  connection: AbstractSqlConnection,
  transaction: Transaction,
  sql: string,
  values: readonly (string | number | Buffer)[],
): Promise<number> {
  const result = await connection.execute<QueryResult>(sql, values, 'run', transaction)
  return result.affectedRows
}
