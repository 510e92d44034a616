/** Reads trades with their signed orders, for settlement. */

import { type Address, type MarketId, type OrderHash, type TradeId, tradeId } from '#domain/ids.ts'
import { BUY, type PermitSignature, type VerifiedOrder } from '#domain/order.ts'
import type { TradeWithOrders } from '#domain/trade.ts'
import { type Database, read, sqlConnection } from '../engine/database.ts'
import { bytesOf, hexOf } from '../engine/hex.ts'
import { tradeKey } from '../projection/columns.ts'
import { type OrderRecord, ordersByHash } from './orders.ts'
import { type TradeRecord, type TradeRowRead, tradeOfRow } from './trades.ts'

/** Pending trades; `full` is true if the database may have more. */
export type PendingTrades = { readonly trades: readonly TradeWithOrders[]; readonly full: boolean }

/**
 * Returns at most `limit` undecided trades, oldest first. Leaves out trades of the given markets and takers, and trades
 * that the caller already has.
 */
export async function pendingTradesWithOrders(
  database: Database,
  filter: {
    readonly chainId: number
    readonly limit: number
    readonly exceptMarkets?: readonly MarketId[]
    readonly exceptTakers?: readonly Address[]
    readonly exceptTrades?: readonly TradeId[]
  },
): Promise<PendingTrades> {
  const { chainId, limit, exceptMarkets = [], exceptTakers = [], exceptTrades = [] } = filter
  const except = (what: string, list: readonly string[]) =>
    list.length === 0 ? '' : `and ${what} not in (${list.map(() => '?')})`
  const taker = `case taker_side when ${BUY} then buyer else seller end`
  // `exceptTrades` are removed after the query. Read one extra row for each of them, so that `limit` trades remain.
  const reach = exceptTrades.length + limit
  const rows = await read(database, () =>
    sqlConnection(database).execute<TradeRowRead[]>(
      `select * from trades where pending = 1 and chain_id = ?
        ${except('market_id', exceptMarkets)} ${except(taker, exceptTakers)}
        order by matched_at_ms, seq, fill_index limit ?`,
      [chainId, ...[...exceptMarkets, ...exceptTakers].map(bytesOf), reach],
      'all',
    ),
  )
  const known = new Set(exceptTrades)
  const fresh: TradeRecord[] = []
  for (const row of rows) {
    if (fresh.length === limit) break
    if (!known.has(idOfRow(row))) fresh.push(tradeOfRow(row))
  }
  return { trades: await withOrders(database, fresh), full: rows.length === reach }
}

function idOfRow({ market_id, seq, fill_index }: TradeRowRead): TradeId {
  return tradeId(hexOf(market_id) as MarketId, Number(seq), fill_index)
}

/** Returns those of the given trades that exist, in any state, in the order of `tradeIds`. */
export async function tradesWithOrders(
  database: Database,
  { tradeIds }: { readonly tradeIds: readonly TradeId[] },
): Promise<TradeWithOrders[]> {
  if (tradeIds.length === 0) return []
  const keys = tradeIds.map(tradeKey)
  const rows = await read(database, () =>
    sqlConnection(database).execute<TradeRowRead[]>(
      `select * from trades where ${keys.map(() => '(market_id = ? and seq = ? and fill_index = ?)').join(' or ')}`,
      keys.flatMap(({ marketId, sequence, fillIndex }) => [bytesOf(marketId), sequence, fillIndex]),
      'all',
    ),
  )
  const places = new Map(tradeIds.map((id, place) => [id, place]))
  const placeOf = ({ tradeId: id }: TradeRecord): number => places.get(id) ?? 0
  const trades = rows.map(tradeOfRow).sort((a, b) => placeOf(a) - placeOf(b))
  return withOrders(database, trades)
}

async function withOrders(
  database: Database,
  trades: readonly TradeRecord[],
): Promise<TradeWithOrders[]> {
  const hashes = new Set<OrderHash>()
  for (const { buyOrderHash, sellOrderHash } of trades) hashes.add(buyOrderHash).add(sellOrderHash)
  const orders = new Map(
    (await ordersByHash(database, [...hashes])).map((order) => [order.orderHash, order]),
  )
  return trades.flatMap((trade) => {
    const buy = orders.get(trade.buyOrderHash)
    const sell = orders.get(trade.sellOrderHash)
    // An order is written before its trades, so both orders of a trade exist.
    if (buy === undefined || sell === undefined) return []
    const { cost, txHash, reason, failedAtMs, updatedAtMs, ...rest } = trade
    return [{ ...rest, buy: asSigned(buy), sell: asSigned(sell) }]
  })
}

function asSigned(record: OrderRecord): VerifiedOrder {
  const { chainId, status, remaining, matches, placedAtMs, updatedAtMs, seq, ...order } = record
  return order
}

/** Maximum number of permits of one owner per read. */
const PERMITS_OF_OWNER_MAX = 64

/**
 * Returns permits of these traders' orders: first the permits of open orders, then the latest permits of
 * orders in any state. Both reads are needed: if a trader often replaces orders, the latest permits may not
 * include those of the resting orders.
 */
export async function permitsOf(
  database: Database,
  { chainId, owners }: { readonly chainId: number; readonly owners: readonly Address[] },
): Promise<{ readonly owner: Address; readonly permit: PermitSignature }[]> {
  const isMysql = database.address.dialect === 'mysql'
  const mine = isMysql ? 'permit_owner = ?' : 'trader = ? and permit is not null'
  const found: { owner: Address; permit: PermitSignature }[] = []
  // `length(permit) > 0` keeps SQLite from using the index of orders with permits. That index would be slow here,
  // because few of its orders are open.
  const reads = [
    `select permit from orders where trader = ? and chain_id = ? and status = 'open' and length(permit) > 0 limit ?`,
    `select permit from orders where ${mine} and chain_id = ? order by placed_at_ms desc limit ?`,
  ]
  for (const owner of owners) {
    const permits = new Set<string>()
    for (const statement of reads) {
      const rows = await read(database, () =>
        sqlConnection(database).execute<{ permit: string }[]>(
          statement,
          [bytesOf(owner), chainId, PERMITS_OF_OWNER_MAX],
          'all',
        ),
      )
      for (const { permit } of rows) permits.add(permit)
    }
    for (const permit of permits)
      found.push({ owner, permit: JSON.parse(permit) as PermitSignature })
  }
  return found
}
