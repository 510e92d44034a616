/** Reads of markets. */

import type { FilterQuery } from '@mikro-orm/core'
import type { Address, MarketId } from '#domain/ids.ts'
import type { Category, CloseReason, Market } from '#domain/market.ts'
import { type Database, read } from '../engine/database.ts'
import { MarketEntity } from '../entities/market.ts'

export type MarketRecord = Market & {
  readonly openedAtMs: number
  /** Both null while the market is open. */
  readonly closeReason: CloseReason | null
  readonly closedAtMs: number | null
}

export type MarketFilter = {
  readonly chainId?: number
  readonly category?: Category
  /** Quick markets only, or all others only. */
  readonly quick?: boolean
  /** Closed markets only, or open ones only. */
  readonly closed?: boolean
  /** Only markets that expire later than this, in Unix seconds. */
  readonly expiresAfterSec?: number
  readonly limit: number
  /** Oldest first, after this one. */
  readonly after?: { readonly createdAt: number; readonly id: MarketId | undefined } | undefined
}

export async function marketById(
  database: Database,
  marketId: MarketId,
): Promise<MarketRecord | undefined> {
  const found = await read(database, (em) =>
    em.findOne(MarketEntity, { id: marketId }, { disableIdentityMap: true }),
  )
  return found === null ? undefined : marketRecord(found)
}

const ID_CHARS = 64

/** Returns the oldest market whose id begins with these hex digits. */
export async function oldestMarketOf(
  database: Database,
  idStart: string,
): Promise<MarketRecord | undefined> {
  const bound = (digit: string) => `0x${idStart.padEnd(ID_CHARS, digit)}` as MarketId
  const where = { id: { $gte: bound('0'), $lte: bound('f') } }
  const found = await read(database, (em) =>
    em.find(MarketEntity, where, {
      orderBy: { createdAt: 'asc', id: 'asc' },
      limit: 1,
      disableIdentityMap: true,
    }),
  )
  return found[0] === undefined ? undefined : marketRecord(found[0])
}

/** Returns the markets with this contract. Several chains may have a market at the same address. */
export async function marketsByContract(
  database: Database,
  contractAddress: Address,
): Promise<MarketRecord[]> {
  const found = await read(database, (em) =>
    em.find(
      MarketEntity,
      { contractAddress },
      { orderBy: { createdAt: 'desc', id: 'asc' }, disableIdentityMap: true, limit: 100 },
    ),
  )
  return found.map(marketRecord)
}

/** Returns markets that match the filter, newest first; with `after`, oldest first. */
export async function listMarkets(
  database: Database,
  filter: MarketFilter,
): Promise<MarketRecord[]> {
  const where: FilterQuery<MarketEntity> = {
    ...(filter.chainId === undefined ? {} : { chainId: filter.chainId }),
    ...(filter.category === undefined ? {} : { category: filter.category }),
    ...(filter.quick === undefined ? {} : { quick: filter.quick }),
    ...(filter.closed === undefined ? {} : { closeReason: filter.closed ? { $ne: null } : null }),
    ...(filter.expiresAfterSec === undefined
      ? {}
      : { expiration: { $gt: filter.expiresAfterSec } }),
    ...(filter.after === undefined ? {} : later(filter.after)),
  }
  const way = filter.after === undefined ? 'desc' : 'asc'
  const found = await read(database, (em) =>
    em.find(MarketEntity, where, {
      orderBy: { createdAt: way, id: way },
      limit: filter.limit,
      disableIdentityMap: true,
    }),
  )
  return found.map(marketRecord)
}

function later({ createdAt, id }: NonNullable<MarketFilter['after']>): object {
  if (id === undefined) return { createdAt: { $gte: createdAt } }
  // The condition on the time alone uses the index; the rest skips rows within one second.
  return {
    createdAt: { $gte: createdAt },
    $or: [{ createdAt: { $gt: createdAt } }, { id: { $gt: id } }],
  }
}

function marketRecord(row: MarketEntity): MarketRecord {
  return {
    id: row.id,
    question: row.question,
    description: row.description,
    category: row.category,
    contractAddress: row.contractAddress,
    maker: row.maker,
    expiration: row.expiration,
    chainId: row.chainId,
    createdAt: row.createdAt,
    quick: row.quick,
    openedAtMs: row.openedAtMs,
    closeReason: row.closeReason ?? null,
    closedAtMs: row.closedAtMs ?? null,
  }
}
