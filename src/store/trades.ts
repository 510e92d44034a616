/**
 * Reads of trades. Within a market trades lie in the order of `seq` and `fillIndex`, which is also
 * the order of time, since a market's clock never goes back; across markets they are ordered by
 * time, and equal times by `seq` and `fillIndex`.
 */

import type { MarketId, TradeId } from '#domain/ids.ts'
import { tradeId } from '#domain/ids.ts'
import type { Trade, TradeStatus } from '#domain/trade.ts'
import { tradeKey } from './columns.ts'
import { type Database, read, sqlConnection } from './database.ts'
import { TradeEntity } from './entities/trade.ts'

export type TradeRecord = Trade & {
  readonly chainId: number
  /** What the buyer pays, in collateral of six decimals. */
  readonly cost: number
  readonly status: TradeStatus
  /** Empty until the trade was first submitted. */
  readonly txHash: string
  /** Why it failed or was reverted, otherwise empty. */
  readonly reason: string
  /** How often it was submitted. */
  readonly attempts: number
  readonly failedAtMs: number | null
  readonly updatedAtMs: number
}

export async function tradeById(database: Database, id: TradeId): Promise<TradeRecord | undefined> {
  const { marketId, sequence, fillIndex } = tradeKey(id)
  const found = await read(database, (em) =>
    em.findOne(TradeEntity, { marketId, seq: sequence, fillIndex }, { disableIdentityMap: true }),
  )
  return found === null ? undefined : tradeRecord(found)
}

/** A place in the trades of a market: what happened before this one. */
export type BeforeTrade = { readonly seq: number; readonly fillIndex: number }

/** The trades of a market, the newest first; all of them, or those before one. */
export async function recentTrades(
  database: Database,
  filter: {
    readonly marketId: MarketId
    readonly limit: number
    readonly before?: BeforeTrade | undefined
  },
): Promise<TradeRecord[]> {
  const { marketId, before } = filter
  // The bound on `seq` alone is what the index serves; the rest skips fills of one event.
  const earlier =
    before === undefined
      ? {}
      : {
          seq: { $lte: before.seq },
          $or: [{ seq: { $lt: before.seq } }, { fillIndex: { $lt: before.fillIndex } }],
        }
  const found = await read(database, (em) =>
    em.find(
      TradeEntity,
      { marketId, ...earlier },
      {
        orderBy: { seq: 'desc', fillIndex: 'desc' },
        limit: filter.limit,
        disableIdentityMap: true,
      },
    ),
  )
  return found.map(tradeRecord)
}

/** Trades that the chain has not decided about, the oldest first. */
export async function pendingTrades(
  database: Database,
  filter: { readonly chainId?: number; readonly limit: number },
): Promise<TradeRecord[]> {
  const found = await read(database, (em) =>
    em.find(
      TradeEntity,
      { pending: 1, ...(filter.chainId === undefined ? {} : { chainId: filter.chainId }) },
      {
        orderBy: { matchedAtMs: 'asc', seq: 'asc', fillIndex: 'asc' },
        limit: filter.limit,
        disableIdentityMap: true,
      },
    ),
  )
  return found.map(tradeRecord)
}

/** The newest trades that the chain has not decided about, and how many there are in all. */
export async function newestPendingTrades(
  database: Database,
  filter: { readonly limit: number },
): Promise<{ trades: TradeRecord[]; count: number }> {
  const [found, count] = await read(database, (em) =>
    Promise.all([
      em.find(TradeEntity, { pending: 1 }, newest(filter.limit)),
      // Kept by the projector, because there may be as many as there are trades.
      sqlConnection(database).execute<{ pending: number | string | null }[]>(
        'select sum(pending) as pending from chain_stats',
      ),
    ]),
  )
  return { trades: found.map(tradeRecord), count: Number(count[0]?.pending ?? 0) }
}

/** The newest trades that failed at `sinceMs` or later, and how many there are in all. */
export async function failedTradesSince(
  database: Database,
  filter: { readonly sinceMs: number; readonly limit: number },
): Promise<{ trades: TradeRecord[]; count: number }> {
  const where = { failedAtMs: { $gte: filter.sinceMs } }
  const [found, count] = await read(database, (em) =>
    Promise.all([
      em.find(TradeEntity, where, {
        orderBy: { failedAtMs: 'desc', seq: 'desc', fillIndex: 'desc' },
        limit: filter.limit,
        disableIdentityMap: true,
      }),
      em.count(TradeEntity, where),
    ]),
  )
  return { trades: found.map(tradeRecord), count }
}

/** The trades that were last submitted with this transaction, in the order of matching. */
export async function tradesByTransaction(
  database: Database,
  filter: { readonly txHash: string; readonly limit: number },
): Promise<TradeRecord[]> {
  const found = await read(database, (em) =>
    em.find(
      TradeEntity,
      { txHash: filter.txHash },
      {
        orderBy: { matchedAtMs: 'asc', seq: 'asc', fillIndex: 'asc' },
        limit: filter.limit,
        disableIdentityMap: true,
      },
    ),
  )
  return found.map(tradeRecord)
}

function newest(limit: number) {
  return {
    orderBy: { matchedAtMs: 'desc', seq: 'desc', fillIndex: 'desc' },
    limit,
    disableIdentityMap: true,
  } as const
}

export function tradeRecord(row: TradeEntity): TradeRecord {
  return {
    tradeId: tradeId(row.marketId, row.seq, row.fillIndex),
    marketId: row.marketId,
    seq: row.seq,
    fillIndex: row.fillIndex,
    outcome: row.outcome,
    price: row.price,
    size: row.size,
    buyer: row.buyer,
    seller: row.seller,
    buyOrderHash: row.buyOrderHash,
    sellOrderHash: row.sellOrderHash,
    takerSide: row.takerSide,
    matchedAtMs: row.matchedAtMs,
    chainId: row.chainId,
    cost: row.cost,
    status: row.status,
    txHash: row.txHash ?? '',
    reason: row.reason ?? '',
    attempts: row.attempts,
    failedAtMs: row.failedAtMs ?? null,
    updatedAtMs: row.updatedAtMs,
  }
}
