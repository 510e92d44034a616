/** Trades with their signed orders, as settlement needs them. */

import type { MarketId, OrderHash, TradeId } from '#domain/ids.ts'
import type { VerifiedOrder } from '#domain/order.ts'
import type { StoredTrade } from '#domain/trade.ts'
import { tradeKey } from './columns.ts'
import { type Database, read } from './database.ts'
import { TradeEntity } from './entities/trade.ts'
import { type OrderRecord, ordersByHash } from './orders.ts'
import { type TradeRecord, tradeRecord } from './trades.ts'

/** Trades that the chain has not decided about, the oldest first, without those of some markets. */
export async function tradesToSettle(
  database: Database,
  filter: {
    readonly chainId: number
    readonly limit: number
    readonly exceptMarkets?: readonly MarketId[]
  },
): Promise<StoredTrade[]> {
  const { chainId, limit, exceptMarkets = [] } = filter
  const found = await read(database, (em) =>
    em.find(
      TradeEntity,
      {
        pending: 1,
        chainId,
        ...(exceptMarkets.length === 0 ? {} : { marketId: { $nin: [...exceptMarkets] } }),
      },
      {
        orderBy: { matchedAtMs: 'asc', seq: 'asc', fillIndex: 'asc' },
        limit,
        disableIdentityMap: true,
      },
    ),
  )
  return withOrders(database, found.map(tradeRecord))
}

/** Those of the trades that are known, whatever has become of them. */
export async function tradesWithOrders(
  database: Database,
  { tradeIds }: { readonly tradeIds: readonly TradeId[] },
): Promise<StoredTrade[]> {
  if (tradeIds.length === 0) return []
  const keys = tradeIds.map(tradeKey).map(({ marketId, sequence, fillIndex }) => ({
    marketId,
    seq: sequence,
    fillIndex,
  }))
  const found = await read(database, (em) =>
    em.find(TradeEntity, { $or: keys }, { disableIdentityMap: true }),
  )
  return withOrders(database, found.map(tradeRecord))
}

async function withOrders(
  database: Database,
  trades: readonly TradeRecord[],
): Promise<StoredTrade[]> {
  const hashes = new Set<OrderHash>()
  for (const { buyOrderHash, sellOrderHash } of trades) hashes.add(buyOrderHash).add(sellOrderHash)
  const orders = new Map(
    (await ordersByHash(database, [...hashes])).map((order) => [order.orderHash, order]),
  )
  return trades.flatMap((trade) => {
    const buy = orders.get(trade.buyOrderHash)
    const sell = orders.get(trade.sellOrderHash)
    // An order is in the database before its trades are, so both are there.
    if (buy === undefined || sell === undefined) return []
    const { cost, txHash, reason, failedAtMs, updatedAtMs, ...rest } = trade
    return [{ ...rest, buy: asSigned(buy), sell: asSigned(sell) }]
  })
}

function asSigned(record: OrderRecord): VerifiedOrder {
  const { chainId, status, remaining, matches, placedAtMs, updatedAtMs, seq, ...order } = record
  return order
}
