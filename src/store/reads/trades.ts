/**
 * Reads trades. Within a market, trades are stored in the order of `seq` and `fillIndex`. This is also time order,
 * because a market's clock never goes back. Across markets, trades are ordered by time, then `seq` and `fillIndex`.
 */

import type { Address, MarketId, OrderHash } from '#domain/ids.ts'
import { tradeId } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import type { Outcome, Side } from '#domain/order.ts'
import type { FillKind, ListedTrade, Trade, TradeStatus } from '#domain/trade.ts'
import type { Database } from '../engine/database.ts'
import { bytesOf, hexColumn, hexOf, hexOfDigits } from '../engine/hex.ts'
import { rowsOf } from '../engine/prepared.ts'

export type TradeRecord = Trade & {
  readonly chainId: number
  /** Amount that the buyer pays, in collateral with six decimals. */
  readonly cost: number
  readonly status: TradeStatus
  /** Empty until the first submission. */
  readonly txHash: string
  /** Reason of a failure or revert, otherwise empty. */
  readonly reason: string
  /** Number of submissions. */
  readonly attempts: number
  readonly failedAtMs: number | null
  readonly updatedAtMs: number
}

/** Position of a trade in its market. The page contains only earlier trades. */
type BeforeTrade = { readonly seq: number; readonly fillIndex: number }

/**
 * The first condition, on `seq` only, lets the database use an index. The second condition excludes the trade at the
 * position, and later trades of the same match.
 */
const BEFORE_PLACE = 'and seq <= ? and (seq < ? or fill_index < ?)'
const NEWEST_FIRST = 'order by market_id desc, seq desc, fill_index desc'

/** Returns the trades of a market, newest first: all trades, or only the trades before a position. */
export async function recentTrades(
  database: Database,
  filter: {
    readonly marketId: MarketId
    readonly limit: number
    readonly before?: BeforeTrade | undefined
  },
): Promise<TradeRecord[]> {
  const { marketId, limit, before } = filter
  const earlier = before === undefined ? '' : BEFORE_PLACE
  const place = before === undefined ? [] : [before.seq, before.seq, before.fillIndex]
  return listed(database, `where market_id = ? ${earlier} ${NEWEST_FIRST} limit ?`, [
    bytesOf(marketId),
    ...place,
    limit,
  ])
}

type ListedRow = Pick<
  TradeRowRead,
  | 'seq'
  | 'fill_index'
  | 'outcome'
  | 'price_e6'
  | 'size_e6'
  | 'taker_side'
  | 'matched_at_ms'
  | 'status'
  | 'kind'
> & { readonly bought: string; readonly sold: string; readonly tx: string | null }

/** Returns trades of a market before a position, newest first, with only the fields that a list shows. */
export async function earlierTrades(
  database: Database,
  filter: { readonly marketId: MarketId; readonly limit: number; readonly before: BeforeTrade },
): Promise<ListedTrade[]> {
  const { marketId, limit, before } = filter
  const rows = await rowsOf<ListedRow>(
    database,
    `select seq, fill_index, outcome, price_e6, size_e6, taker_side, matched_at_ms, status, kind,
        ${hexColumn('buyer')} as bought, ${hexColumn('seller')} as sold, ${hexColumn('tx_hash')} as tx
      from trades where market_id = ? ${BEFORE_PLACE} ${NEWEST_FIRST} limit ?`,
    [bytesOf(marketId), before.seq, before.seq, before.fillIndex, limit],
  )
  return rows.map((row) => ({
    tradeId: tradeId(marketId, Number(row.seq), row.fill_index),
    seq: Number(row.seq),
    outcome: row.outcome,
    price: row.price_e6,
    size: Number(row.size_e6) as Shares,
    buyer: hexOfDigits(row.bought) as Address,
    seller: hexOfDigits(row.sold) as Address,
    takerSide: row.taker_side,
    matchedAtMs: Number(row.matched_at_ms),
    status: row.status,
    txHash: hexOfDigits(row.tx),
    ...(row.kind === null ? {} : { kind: row.kind }),
  }))
}

/** Position of the last trade on a page of a list across markets. The row number makes each position unique. */
export type TradePlace = {
  /** Time by which the list is ordered. */
  readonly atMs: number
  readonly seq: number
  readonly fillIndex: number
  readonly row: number
}

/**
 * A page of trades, and the total number of trades. `next` is the position at which the next page begins; undefined on
 * the last page.
 */
export type TradePage = {
  readonly trades: TradeRecord[]
  readonly count: number
  readonly next: TradePlace | undefined
}

/** Returns the newest undecided trades. */
export async function newestPendingTrades(
  database: Database,
  filter: { readonly limit: number; readonly before?: TradePlace | undefined },
): Promise<TradePage> {
  const [page, count] = await Promise.all([
    pageOf(database, 'matched_at_ms', { where: 'pending = 1', values: [] }, filter),
    // The number of pending trades is a stored sum, because counting pending trades could require reading every trade.
    rowsOf<{ pending: number | string | null }>(
      database,
      'select sum(pending) as pending from chain_stats',
      [],
    ),
  ])
  return { ...page, count: Number(count[0]?.pending ?? 0) }
}

/**
 * Counts a trader's settled trades that matched at `sinceMs` or later. Does not count trades of the trader with
 * themselves. Counts at most `limit` trades as buyer and `limit` as seller.
 */
export async function settledTradesOf(
  database: Database,
  filter: {
    readonly chainId: number
    readonly trader: Address
    readonly sinceMs: number
    readonly limit: number
  },
): Promise<number> {
  const { chainId, trader, sinceMs, limit } = filter
  const counted = await Promise.all(
    (['buyer', 'seller'] as const).map((side) =>
      rowsOf<{ seq: number | string }>(
        database,
        `select seq from trades
          where ${side} = ? and chain_id = ? and matched_at_ms >= ? and status = 'confirmed'
            and buyer <> seller
          limit ?`,
        [bytesOf(trader), chainId, sinceMs, limit],
      ),
    ),
  )
  return counted.reduce((sum, rows) => sum + rows.length, 0)
}

/** Returns the newest trades that failed at `sinceMs` or later. */
export async function failedTradesSince(
  database: Database,
  filter: {
    readonly sinceMs: number
    readonly limit: number
    readonly before?: TradePlace | undefined
  },
): Promise<TradePage> {
  const [page, count] = await Promise.all([
    pageOf(
      database,
      'failed_at_ms',
      { where: 'failed_at_ms >= ?', values: [filter.sinceMs] },
      filter,
    ),
    rowsOf<{ failed: number | string }>(
      database,
      'select count(*) as failed from trades where failed_at_ms >= ?',
      [filter.sinceMs],
    ),
  ])
  return { ...page, count: Number(count[0]?.failed ?? 0) }
}

async function pageOf(
  database: Database,
  time: 'matched_at_ms' | 'failed_at_ms',
  { where, values }: { readonly where: string; readonly values: readonly number[] },
  { limit, before }: { readonly limit: number; readonly before?: TradePlace | undefined },
): Promise<Pick<TradePage, 'trades' | 'next'>> {
  const row = database.address.dialect === 'sqlite' ? 'rowid' : 'row_no'
  const asked = [...values]
  let earlier = ''
  if (before !== undefined) {
    const { atMs, seq, fillIndex } = before
    // The first condition, on the time only, uses an index. The other conditions skip rows of the same millisecond that
    // were on an earlier page.
    earlier = `and ${time} <= ? and (${time} < ? or seq < ? or (seq = ?
      and (fill_index < ? or (fill_index = ? and ${row} < ?))))`
    asked.push(atMs, atMs, seq, seq, fillIndex, fillIndex, before.row)
  }
  const rows = await rowsOf<TradeRowRead & { place: number | string }>(
    database,
    `select *, ${row} as place from trades where ${where} ${earlier}
      order by ${time} desc, seq desc, fill_index desc, ${row} desc limit ?`,
    [...asked, limit],
  )
  const last = rows.length < limit ? undefined : rows.at(-1)
  const next =
    last === undefined
      ? undefined
      : {
          atMs: Number(last[time]),
          seq: Number(last.seq),
          fillIndex: last.fill_index,
          row: Number(last.place),
        }
  return { trades: rows.map(tradeOfRow), next }
}

/** A row of the table, as both drivers return it. */
export type TradeRowRead = {
  readonly market_id: Buffer
  readonly seq: number | string
  readonly fill_index: number
  readonly chain_id: number | string
  readonly outcome: Outcome
  readonly price_e6: Price
  readonly size_e6: number | string
  readonly cost_e6: number | string
  readonly buyer: Buffer
  readonly seller: Buffer
  readonly buy_order_hash: Buffer
  readonly sell_order_hash: Buffer
  readonly taker_side: Side
  readonly matched_at_ms: number | string
  readonly status: TradeStatus
  readonly tx_hash: Buffer | null
  readonly reason: string | null
  readonly attempts: number
  readonly failed_at_ms: number | string | null
  readonly updated_at_ms: number | string
  readonly kind: FillKind | null
}

/** Columns of a trade's terms. */
export type TradeTermsRow = Pick<
  TradeRowRead,
  | 'market_id'
  | 'seq'
  | 'fill_index'
  | 'outcome'
  | 'price_e6'
  | 'size_e6'
  | 'buyer'
  | 'seller'
  | 'buy_order_hash'
  | 'sell_order_hash'
  | 'kind'
>

/** Reads lists without the ORM: creating entities costs many times more than reading the rows. */
async function listed(
  database: Database,
  rest: string,
  values: readonly (number | Buffer)[],
): Promise<TradeRecord[]> {
  const rows = await rowsOf<TradeRowRead>(database, `select * from trades ${rest}`, values)
  return rows.map(tradeOfRow)
}

/** Returns the id, terms, traders and order hashes of the trade in a row. */
export function termsOfRow(row: TradeTermsRow) {
  const marketId = hexOf(row.market_id) as MarketId
  return {
    tradeId: tradeId(marketId, Number(row.seq), row.fill_index),
    marketId,
    outcome: row.outcome,
    price: row.price_e6,
    size: Number(row.size_e6) as Shares,
    buyer: hexOf(row.buyer) as Address,
    seller: hexOf(row.seller) as Address,
    buyOrderHash: hexOf(row.buy_order_hash) as OrderHash,
    sellOrderHash: hexOf(row.sell_order_hash) as OrderHash,
    ...(row.kind === null ? {} : { kind: row.kind }),
  }
}

export function tradeOfRow(row: TradeRowRead): TradeRecord {
  return {
    ...termsOfRow(row),
    seq: Number(row.seq),
    fillIndex: row.fill_index,
    takerSide: row.taker_side,
    matchedAtMs: Number(row.matched_at_ms),
    chainId: Number(row.chain_id),
    cost: Number(row.cost_e6),
    status: row.status,
    txHash: row.tx_hash === null ? '' : hexOf(row.tx_hash),
    reason: row.reason ?? '',
    attempts: row.attempts,
    failedAtMs: row.failed_at_ms === null ? null : Number(row.failed_at_ms),
    updatedAtMs: Number(row.updated_at_ms),
  }
}
