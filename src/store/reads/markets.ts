/** Reads of markets. */

import type { Address, MarketId } from '#domain/ids.ts'
import type { Category, CloseReason, Market } from '#domain/market.ts'
import { type Database, read } from '../engine/database.ts'
import { bytesOf, hexOf } from '../engine/hex.ts'
import { rowsOf } from '../engine/prepared.ts'
import { MarketEntity } from '../entities/market.ts'

type MarketRecord = Market & {
  readonly openedAtMs: number
  /** Reason why the market closed. `closeReason` and `closedAtMs` are null while the market is open. */
  readonly closeReason: CloseReason | null
  readonly closedAtMs: number | null
}

export type MarketFilter = {
  readonly chainId?: number
  readonly category?: Category
  /** True selects only quick markets, false only other markets. */
  readonly quick?: boolean
  /** True selects only closed markets, false only open markets. */
  readonly closed?: boolean
  readonly limit: number
  /** Selects only markets that were created after this market, and returns the oldest first. */
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

type ListedRow = {
  readonly market_id: Uint8Array
  readonly chain_id: number | string
  readonly question: string
  readonly description: string
  readonly category: Category
  readonly contract_address: Uint8Array
  readonly maker: Uint8Array
  readonly expires_at_sec: number | string
  readonly created_at_sec: number | string
  readonly quick: number
  readonly opened_at_ms: number | string
  readonly close_reason: CloseReason | null
  readonly closed_at_ms: number | string | null
}

/**
 * Returns markets that match the filter, newest first; with `after`, oldest first. Does not use the ORM, because
 * creating entities costs many times more than reading the rows.
 */
export async function listMarkets(
  database: Database,
  filter: MarketFilter,
): Promise<MarketRecord[]> {
  const where: string[] = []
  const values: (number | string | Buffer)[] = []
  const need = (text: string, ...given: (number | string | Buffer)[]): void => {
    where.push(text)
    values.push(...given)
  }
  if (filter.chainId !== undefined) need('chain_id = ?', filter.chainId)
  if (filter.category !== undefined) need('category = ?', filter.category)
  if (filter.quick !== undefined) need('quick = ?', filter.quick ? 1 : 0)
  if (filter.closed !== undefined) need(`close_reason is ${filter.closed ? 'not ' : ''}null`)
  if (filter.after !== undefined) {
    const { createdAt, id } = filter.after
    // The condition `created_at_sec >= ?` uses an index. The other condition skips markets of the same second that were
    // on an earlier page.
    need('created_at_sec >= ?', createdAt)
    if (id !== undefined) need('(created_at_sec > ? or market_id > ?)', createdAt, bytesOf(id))
  }
  const way = filter.after === undefined ? 'desc' : 'asc'
  const rows = await rowsOf<ListedRow>(
    database,
    `select market_id, chain_id, question, description, category, contract_address, maker,
        expires_at_sec, created_at_sec, quick, opened_at_ms, close_reason, closed_at_ms
      from markets ${where.length === 0 ? '' : `where ${where.join(' and ')}`}
      order by created_at_sec ${way}, market_id ${way} limit ?`,
    [...values, filter.limit],
  )
  return rows.map((row) => ({
    id: hexOf(row.market_id) as MarketId,
    question: row.question,
    description: row.description,
    category: row.category,
    contractAddress: hexOf(row.contract_address) as Address,
    maker: hexOf(row.maker) as Address,
    expiration: Number(row.expires_at_sec),
    chainId: Number(row.chain_id),
    createdAt: Number(row.created_at_sec),
    quick: Number(row.quick) === 1,
    openedAtMs: Number(row.opened_at_ms),
    closeReason: row.close_reason,
    closedAtMs: row.closed_at_ms === null ? null : Number(row.closed_at_ms),
  }))
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
    ...(row.matching == null ? {} : { matching: row.matching }),
    openedAtMs: row.openedAtMs,
    closeReason: row.closeReason ?? null,
    closedAtMs: row.closedAtMs ?? null,
  }
}
