/**
 * Reads the data from which the accounts thread computes the reserved funds when it starts. The data is: the checkpoint
 * of each partition, markets that may still change, their open orders, and undecided trades. All of it is from one
 * snapshot of the database. Afterwards the thread reads each log from its checkpoint on. The data is passed in pages,
 * so that only one page is in memory.
 */

import type { NeedsMarket, NeedsOrder, NeedsTrade } from '#domain/funds.ts'
import type { Address, MarketId, OrderHash, TradeId, Uint64 } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import type { Outcome, PermitSignature, Side } from '#domain/order.ts'
import { type Database, read, sqlConnection } from '../engine/database.ts'
import { bytesOf, hexOf } from '../engine/hex.ts'
import { snapshot } from '../engine/snapshot.ts'
import type { Statements } from '../engine/statements.ts'
import type { Checkpoint } from '../projection/checkpoints.ts'
import { tradeKey } from '../projection/columns.ts'
import { type TradeRowRead, type TradeTermsRow, termsOfRow } from './trades.ts'

/** A page has items of one kind. A market comes before its orders and trades. */
export type NeedsPage =
  | { readonly checkpoints: readonly Checkpoint[] }
  | { readonly markets: readonly NeedsMarket[] }
  | { readonly orders: readonly NeedsOrder[] }
  | { readonly trades: readonly NeedsTrade[] }

export type OpenNeedsOptions = {
  /** Includes markets that closed at this time or later, because a reorg may revert trades of these markets. */
  readonly closedSinceMs: number
  /** Maximum number of rows per page. */
  readonly pageMax?: number
}

const PAGE_MAX = 5_000
/** Maximum number of markets per statement that reads orders. */
const MARKETS_ASKED_MAX = 100

/** Passes the pages to `take` one by one. Does not retry: after a fault, the caller must start again. */
export async function openNeeds(
  database: Database,
  { closedSinceMs, pageMax = PAGE_MAX }: OpenNeedsOptions,
  take: (page: NeedsPage) => void | Promise<void>,
): Promise<void> {
  await snapshot(database, async (statements) => {
    await take({ checkpoints: await checkpointsOf(statements) })
    const open: Buffer[] = []
    const sent = new Set<string>()
    let after: Buffer | undefined = Buffer.alloc(0)
    while (after !== undefined) {
      const rows: MarketRowRead[] = await marketsAfter(statements, after, {
        closedSinceMs,
        pageMax,
      })
      const markets = rows.map(marketOf)
      for (const [index, { marketId, closed }] of markets.entries()) {
        sent.add(marketId)
        const row = rows[index]
        if (!closed && row !== undefined) open.push(row.market_id)
      }
      if (markets.length > 0) await take({ markets })
      after = rows.length < pageMax ? undefined : rows.at(-1)?.market_id
    }
    await pendingTrades(statements, pageMax, async (trades) => {
      // A pending trade may belong to a market that closed long ago and was not sent above. Send that market before the
      // trade.
      const missing = new Set(
        trades.map(({ marketId }) => marketId).filter((marketId) => !sent.has(marketId)),
      )
      if (missing.size > 0) {
        const markets = await marketsOf(statements, [...missing])
        for (const { marketId } of markets) sent.add(marketId)
        await take({ markets })
      }
      await take({ trades })
    })
    await openOrders(statements, open, pageMax, async (orders) => take({ orders }))
  })
}

/** Returns the given trades that exist, in any state and any order. */
export async function tradeNeeds(
  database: Database,
  { tradeIds }: { readonly tradeIds: readonly TradeId[] },
): Promise<NeedsTrade[]> {
  if (tradeIds.length === 0) return []
  const values = tradeIds.flatMap((id) => {
    const { marketId, sequence, fillIndex } = tradeKey(id)
    return [bytesOf(marketId), sequence, fillIndex]
  })
  const row = database.address.dialect === 'sqlite' ? 'rowid' : 'row_no'
  const wanted = tradeIds.map(() => '(market_id = ? and seq = ? and fill_index = ?)').join(' or ')
  const rows = await read(database, () =>
    sqlConnection(database).execute<TradeNeedRow[]>(tradesWhere(wanted, row), values, 'all'),
  )
  return rows.map(tradeOf)
}

async function checkpointsOf({ all }: Statements): Promise<Checkpoint[]> {
  const rows = await all<{ log_partition: number; log_offset: number | string }>(
    'select log_partition, log_offset from checkpoints order by log_partition',
    [],
  )
  return rows.map((row) => ({ partition: row.log_partition, offset: Number(row.log_offset) }))
}

type MarketRowRead = {
  readonly market_id: Buffer
  readonly chain_id: number | string
  readonly close_reason: string | null
}

function marketsAfter(
  { all }: Statements,
  after: Buffer,
  { closedSinceMs, pageMax }: Required<OpenNeedsOptions>,
): Promise<MarketRowRead[]> {
  return all<MarketRowRead>(
    `select market_id, chain_id, close_reason from markets
      where market_id > ? and (close_reason is null or closed_at_ms >= ?)
      order by market_id limit ?`,
    [after, closedSinceMs, pageMax],
  )
}

async function marketsOf(
  { all }: Statements,
  marketIds: readonly MarketId[],
): Promise<NeedsMarket[]> {
  const rows = await all<MarketRowRead>(
    `select market_id, chain_id, close_reason from markets
      where market_id in (${marketIds.map(() => '?')})`,
    marketIds.map(bytesOf),
  )
  return rows.map(marketOf)
}

function marketOf({ market_id, chain_id, close_reason }: MarketRowRead): NeedsMarket {
  return {
    marketId: hexOf(market_id) as MarketId,
    chainId: Number(chain_id),
    closed: close_reason !== null,
  }
}

type TradeNeedRow = TradeTermsRow &
  Pick<TradeRowRead, 'matched_at_ms' | 'status'> & {
    readonly permit: string | null
    readonly sell_permit: string | null
    readonly place: number | string
  }

/**
 * Returns the SQL that reads trades. It reads permits by subqueries, not by joins, so that the rows come in the order
 * of the index.
 */
function tradesWhere(wanted: string, row: string): string {
  return `select market_id, seq, fill_index, outcome, price_e6, size_e6, buyer, seller,
      buy_order_hash, sell_order_hash, matched_at_ms, status, kind, ${row} as place,
      (select permit from orders where orders.order_hash = trades.buy_order_hash) as permit,
      case when kind = 'mint' then
        (select permit from orders where orders.order_hash = trades.sell_order_hash) end as sell_permit
    from trades where ${wanted}`
}

function nonceOf(permit: string | null): Uint64 | undefined {
  return permit === null ? undefined : (JSON.parse(permit) as PermitSignature).nonce
}

function tradeOf(row: TradeNeedRow): NeedsTrade {
  return {
    ...termsOfRow(row),
    permit: nonceOf(row.permit),
    ...(row.kind === 'mint' ? { sellPermit: nonceOf(row.sell_permit) } : {}),
    sent: row.status !== 'matched',
  }
}

/** Passes all pending trades to `take`, oldest first. */
async function pendingTrades(
  { all, isMysql }: Statements,
  pageMax: number,
  take: (trades: NeedsTrade[]) => Promise<void>,
): Promise<void> {
  const row = isMysql ? 'row_no' : 'rowid'
  let last: TradeNeedRow | undefined
  do {
    // The first condition, on the time only, uses an index. The other conditions skip rows of the same millisecond that
    // were on an earlier page.
    const later =
      last === undefined
        ? ''
        : `and matched_at_ms >= ? and (matched_at_ms > ? or seq > ? or (seq = ?
            and (fill_index > ? or (fill_index = ? and ${row} > ?))))`
    const place =
      last === undefined
        ? []
        : [
            ...[last.matched_at_ms, last.matched_at_ms, last.seq, last.seq],
            ...[last.fill_index, last.fill_index, last.place],
          ]
    const rows: TradeNeedRow[] = await all(
      `${tradesWhere(`pending = 1 ${later}`, row)}
        order by matched_at_ms, seq, fill_index, ${row} limit ?`,
      [...place, pageMax],
    )
    if (rows.length > 0) await take(rows.map(tradeOf))
    last = rows.length < pageMax ? undefined : rows.at(-1)
  } while (last !== undefined)
}

type OrderNeedRow = {
  readonly order_hash: Buffer
  readonly market_id: Buffer
  readonly trader: Buffer
  readonly side: Side
  readonly outcome: Outcome
  readonly price_e6: Price
  readonly remaining_e6: number | string
  readonly permit: string | null
  readonly placed_at_ms: number | string
  readonly place: number | string
}

/**
 * Passes the open orders of these markets to `take` in pages. If a page ends in the middle of a market, the next pages
 * contain only the remaining orders of that market. The page after them begins with the next market.
 */
async function openOrders(
  { all, isMysql }: Statements,
  markets: readonly Buffer[],
  pageMax: number,
  take: (orders: NeedsOrder[]) => Promise<void>,
): Promise<void> {
  const row = isMysql ? 'row_no' : 'rowid'
  let next = 0
  let within: { readonly market: Buffer; readonly place: number | string } | undefined
  while (next < markets.length || within !== undefined) {
    const asked: readonly Buffer[] =
      within === undefined ? markets.slice(next, next + MARKETS_ASKED_MAX) : [within.market]
    const rows: OrderNeedRow[] = await all(
      `select order_hash, market_id, trader, side, outcome, price_e6, remaining_e6, placed_at_ms,
          permit, ${row} as place
        from orders where market_id in (${asked.map(() => '?')}) and status = 'open'
          ${within === undefined ? '' : `and ${row} > ?`}
        order by market_id, ${row} limit ?`,
      [...asked, ...(within === undefined ? [] : [within.place]), pageMax],
    )
    if (rows.length > 0) await take(rows.map(orderOf))
    const last = rows.length < pageMax ? undefined : rows.at(-1)
    if (within === undefined) {
      const at = last === undefined ? -1 : asked.findIndex((id) => id.equals(last.market_id))
      next += last === undefined ? asked.length : at + 1
    }
    within = last === undefined ? undefined : { market: last.market_id, place: last.place }
  }
}

function orderOf(row: OrderNeedRow): NeedsOrder {
  return {
    orderHash: hexOf(row.order_hash) as OrderHash,
    marketId: hexOf(row.market_id) as MarketId,
    trader: hexOf(row.trader) as Address,
    side: row.side,
    outcome: row.outcome,
    price: row.price_e6,
    remaining: Number(row.remaining_e6) as Shares,
    permit: nonceOf(row.permit),
    placedAtMs: Number(row.placed_at_ms),
  }
}
