/**
 * Stores quick markets. Each market is opened only once: opening it again returns the stored market with its first
 * strike. Each market is also decided only once: a later decision is ignored. A contested market accepts only the
 * decision of the oracle.
 */

import assert from 'node:assert/strict'
import type { MarketId } from '#domain/ids.ts'
import {
  decidingPrice,
  type QuickChainStage,
  type QuickMarket,
  type QuickResolution,
  type QuickTerms,
} from '#domain/quick-market.ts'
import { type Database, read, transact } from '../engine/database.ts'
import { bytesOf } from '../engine/hex.ts'
import { QuickMarketEntity } from '../entities/quick-market.ts'

type Key = { readonly chainId: number; readonly marketId: MarketId }

export async function openQuickMarket(database: Database, terms: QuickTerms): Promise<QuickMarket> {
  await transact(database, async (transaction, connection) => {
    const found = await connection.execute<unknown[]>(
      'select quick_id from quick_markets where chain_id = ? and market_id = ?',
      [terms.chainId, bytesOf(terms.marketId)],
      'all',
      transaction,
    )
    if (found.length > 0) return
    await connection.execute(
      `insert into quick_markets (market_id, chain_id, contract_address, asset, start_at_sec,
        interval_sec, start_price_e8, source, strike, created_at_ms, matching, chain_stage, unfinished)
        values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'pending', 1)`,
      [
        bytesOf(terms.marketId),
        terms.chainId,
        bytesOf(terms.contractAddress),
        terms.asset,
        terms.startSec,
        terms.intervalSec,
        terms.strike.price,
        terms.strike.source,
        JSON.stringify(terms.strike),
        terms.createdAtMs,
        terms.matching ?? null,
      ],
      'run',
      transaction,
    )
  })
  return present(database, terms)
}

export async function resolveQuickMarket(
  database: Database,
  decided: Key & { readonly resolution: QuickResolution; readonly atMs: number },
): Promise<QuickMarket> {
  const { resolution, atMs } = decided
  await transact(database, (transaction, connection) =>
    connection.execute(
      `update quick_markets set end_price_e8 = ?, outcome = ?, resolution = ?, resolved_at_ms = ?
        where chain_id = ? and market_id = ? and outcome is null
          and (contested is null or ? = 1)`,
      [
        decidingPrice(resolution),
        resolution.outcome,
        JSON.stringify(resolution),
        atMs,
        decided.chainId,
        bytesOf(decided.marketId),
        resolution.byOracle ? 1 : 0,
      ],
      'run',
      transaction,
    ),
  )
  return present(database, decided)
}

/** Marks an undecided market as contested, because its price sources contradict each other. */
export async function contestQuickMarket(
  database: Database,
  args: Key & { readonly contested: QuickResolution },
): Promise<QuickMarket> {
  await transact(database, (transaction, connection) =>
    connection.execute(
      `update quick_markets set contested = ?
        where chain_id = ? and market_id = ? and outcome is null and contested is null`,
      [JSON.stringify(args.contested), args.chainId, bytesOf(args.marketId)],
      'run',
      transaction,
    ),
  )
  return present(database, args)
}

/** Records the progress of a quick market on chain. An empty transaction hash keeps the stored hash. */
export async function noteQuickMarket(
  database: Database,
  noted: Key & {
    readonly onChain: QuickChainStage
    readonly createTxHash: string
    readonly reportTxHash: string
  },
): Promise<QuickMarket> {
  const hash = (text: string) => (text === '' ? null : bytesOf(text))
  await transact(database, (transaction, connection) =>
    connection.execute(
      `update quick_markets set chain_stage = ?, create_tx_hash = coalesce(?, create_tx_hash),
        report_tx_hash = coalesce(?, report_tx_hash), unfinished = ?
        where chain_id = ? and market_id = ?`,
      [
        noted.onChain,
        hash(noted.createTxHash),
        hash(noted.reportTxHash),
        noted.onChain === 'reported' ? 0 : 1,
        noted.chainId,
        bytesOf(noted.marketId),
      ],
      'run',
      transaction,
    ),
  )
  return present(database, noted)
}

async function present(database: Database, { chainId, marketId }: Key): Promise<QuickMarket> {
  const found = await read(database, (em) =>
    em.findOne(QuickMarketEntity, { chainId, marketId }, { disableIdentityMap: true }),
  )
  assert(found !== null, `the database has no quick market ${marketId}`)
  return quickMarketOf(found)
}

/** Newest first. */
export async function quickMarketsOfAsset(
  database: Database,
  filter: { readonly asset: string; readonly limit: number; readonly beforeSec?: number },
): Promise<QuickMarket[]> {
  const { asset, beforeSec } = filter
  const found = await read(database, (em) =>
    em.find(
      QuickMarketEntity,
      { asset, ...(beforeSec === undefined ? {} : { startSec: { $lt: beforeSec } }) },
      { orderBy: { startSec: 'desc', id: 'desc' }, limit: filter.limit, disableIdentityMap: true },
    ),
  )
  return found.map(quickMarketOf)
}

export async function quickMarketById(
  database: Database,
  filter: { readonly id: number },
): Promise<QuickMarket | undefined> {
  const found = await read(database, (em) =>
    em.findOne(QuickMarketEntity, { id: filter.id }, { disableIdentityMap: true }),
  )
  return found === null ? undefined : quickMarketOf(found)
}

/** Returns quick markets whose outcome is not on chain yet, oldest first. */
export async function unfinishedQuickMarkets(
  database: Database,
  filter: { readonly limit: number },
): Promise<QuickMarket[]> {
  const found = await read(database, (em) =>
    em.find(
      QuickMarketEntity,
      { unfinished: 1 },
      { orderBy: { id: 'asc' }, limit: filter.limit, disableIdentityMap: true },
    ),
  )
  return found.map(quickMarketOf)
}

function quickMarketOf(row: QuickMarketEntity): QuickMarket {
  return {
    id: row.id,
    marketId: row.marketId,
    chainId: row.chainId,
    contractAddress: row.contractAddress,
    asset: row.asset,
    startSec: row.startSec,
    intervalSec: row.intervalSec,
    strike: JSON.parse(row.strike) as QuickTerms['strike'],
    createdAtMs: row.createdAtMs,
    ...(typeof row.matching === 'string' ? { matching: row.matching } : {}),
    contested: resolutionIn(row.contested),
    resolution: resolutionIn(row.resolution),
    resolvedAtMs: row.resolvedAtMs ?? null,
    createTxHash: row.createTxHash ?? '',
    reportTxHash: row.reportTxHash ?? '',
    onChain: row.onChain,
  }
}

function resolutionIn(text: string | null | undefined): QuickResolution | null {
  return typeof text === 'string' ? (JSON.parse(text) as QuickResolution) : null
}
