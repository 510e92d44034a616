/** Short notation of markets, orders, trades and batches in the tests of the store. */

import {
  type Address,
  type MarketId,
  type OrderHash,
  parseTradeId,
  type TradeId,
  tradeId,
  type Uint64,
} from '#domain/ids.ts'
import type { Market } from '#domain/market.ts'
import { ONE, type Price, type Shares } from '#domain/money.ts'
import { BUY, type VerifiedOrder, YES } from '#domain/order.ts'
import type { Trade } from '#domain/trade.ts'
import { closeDatabase, type Database } from '#store/engine/database.ts'
import { openDatabase } from '#store/open-database.ts'
import { claimLog } from '#store/projection/checkpoints.ts'
import { project } from '#store/projection/project.ts'
import type { OrderRow, ProjectionBatch } from '#store/projection/rows.ts'
import { type OrderRecord, ordersByHash } from '#store/reads/orders.ts'
import { recentTrades, type TradeRecord } from '#store/reads/trades.ts'
import type { TestDatabases } from '../support/databases.ts'

export const LOG_ID = 'log-of-the-tests'
export const CHAIN = 31337
export const START_MS = 1_700_000_000_000

/** Returns an id of 32 bytes: the bytes of the name, then zeros. */
export function id<Id extends string>(name: string): Id {
  return `0x${Buffer.from(name, 'latin1').toString('hex').padEnd(64, '0')}` as Id
}

export function address(name: string): Address {
  return `0x${Buffer.from(name, 'latin1').toString('hex').padEnd(40, '0')}` as Address
}

export function market(name: string, fields: Partial<Market> = {}): Market {
  return {
    id: id<MarketId>(name),
    question: `Will ${name} happen?`,
    description: '',
    category: 'general',
    contractAddress: address(`c-${name}`),
    maker: address('maker'),
    expiration: 2_000_000_000,
    chainId: CHAIN,
    createdAt: 1_700_000_000,
    quick: false,
    ...fields,
  }
}

export function order(name: string, fields: Partial<VerifiedOrder> = {}): VerifiedOrder {
  return {
    orderHash: id<OrderHash>(name),
    marketId: id<MarketId>('m'),
    trader: address('ann'),
    side: BUY,
    outcome: YES,
    price: 420_000 as Price,
    size: (10 * ONE) as Shares,
    nonce: '7' as Uint64,
    expiration: '2000000000' as Uint64,
    makerFeeRecipient: address(''),
    signature: `0x${'ab'.repeat(64)}1b`,
    ...fields,
  }
}

export function orderRow(placed: VerifiedOrder, fields: Partial<OrderRow> = {}): OrderRow {
  return {
    order: placed,
    status: 'open',
    remaining: placed.size,
    matches: 0,
    placedAtMs: START_MS,
    seq: 2,
    atMs: START_MS,
    ...fields,
  }
}

export function trade(seq: number, fillIndex: number, fields: Partial<Trade> = {}): Trade {
  const marketId = fields.marketId ?? id<MarketId>('m')
  return {
    tradeId: tradeId(marketId, seq, fillIndex),
    marketId,
    seq,
    fillIndex,
    outcome: YES,
    price: 420_000 as Price,
    size: ONE as Shares,
    buyer: address('ann'),
    seller: address('bob'),
    buyOrderHash: id<OrderHash>('buy'),
    sellOrderHash: id<OrderHash>('sell'),
    takerSide: BUY,
    matchedAtMs: START_MS + seq,
    ...fields,
  }
}

export function batch(
  from: number,
  to: number,
  fields: Partial<ProjectionBatch> = {},
): ProjectionBatch {
  return {
    logId: LOG_ID,
    partition: 0,
    from,
    to,
    markets: [],
    marketChanges: [],
    orders: [],
    orderChanges: [],
    trades: [],
    tradeChanges: [],
    ...fields,
  }
}

/** The first batch of most tests: it opens the market `m`. */
export const opening = batch(0, 1, {
  markets: [{ market: market('m'), seq: 1, atMs: START_MS }],
})

/**
 * Runs `body` with a new database that has its tables and the market `m`, and that belongs to the log `LOG_ID`. Closes
 * the database afterwards.
 */
export async function withStore(
  databases: TestDatabases,
  body: (database: Database, url: string) => Promise<void>,
): Promise<void> {
  const url = await databases.migrated()
  const database = await openDatabase(url)
  try {
    await claimLog(database, { logId: LOG_ID, partitions: 2 })
    await project(database, opening)
    await body(database, url)
  } finally {
    await closeDatabase(database)
  }
  databases.giveBack(url)
}

/** An order, or undefined. */
export async function orderOf(
  database: Database,
  orderHash: OrderHash,
): Promise<OrderRecord | undefined> {
  return (await ordersByHash(database, [orderHash]))[0]
}

/** A trade, or undefined. */
export async function tradeOf(
  database: Database,
  tradeId: TradeId,
): Promise<TradeRecord | undefined> {
  const key = parseTradeId(tradeId)
  if (key === undefined) return undefined
  const { marketId, sequence: seq, fillIndex } = key
  const before = { seq, fillIndex: fillIndex + 1 }
  const [found] = await recentTrades(database, { marketId, limit: 1, before })
  return found?.tradeId === tradeId ? found : undefined
}
