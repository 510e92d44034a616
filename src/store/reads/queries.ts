/**
 * Named queries of the query pool. From this table of types follow the caller (here), the implementation
 * (`answer-query.ts`) and the worker. Only plain data crosses the thread, including faults. Callers load no database
 * code.
 */

import type { ApiKey } from '#domain/api-key.ts'
import type { DeadmanSwitch } from '#domain/deadman.ts'
import type { Delegation } from '#domain/delegate.ts'
import type { NeedsTrade } from '#domain/funds.ts'
import type { Address, MarketId, OrderHash, TradeId } from '#domain/ids.ts'
import type { Mark, QuickMarket } from '#domain/quick-market.ts'
import type { ClaimRecord, RelayKey, RelayRecord } from '#domain/relay.ts'
import type { TradeNote, TradeWithOrders } from '#domain/trade.ts'
import type { TransactionRow } from '#domain/transaction.ts'
import { answerOf, type StoreReply } from '../engine/reply.ts'
import type { PriceRecord } from '../writes/prices.ts'
import type {
  BookSegment,
  publicBookBefore,
  publicSegments,
  StoredBook,
} from '../writes/public-books.ts'
import type {
  EventPlace,
  orderPlace,
  PublicTile,
  PublicTree,
  publicEntries,
  publicTiles,
  tradePlace,
} from '../writes/public-log.ts'
import type { confirmedRelaysOf, relayGasSince } from '../writes/relays.ts'
import type { JournalFilter } from '../writes/transactions.ts'
import type { CandleFilter, CandleRecord } from './candles.ts'
import type { followedTokens, marketsOfContracts } from './chain-known.ts'
import type {
  AssertionRecord,
  ChainMarketFilter,
  ChainMarketRecord,
  marketsToReconcile,
} from './chain-markets.ts'
import type { ClaimFilter, ClaimPlace, redemptionOf } from './claims.ts'
import type { delegationsOf, delegators } from './delegates.ts'
import type {
  EventFilter,
  EventMarkets,
  EventPage,
  EventRecord,
  MarketEventRecord,
  marketsOfEvents,
} from './events.ts'
import type { MarketFiguresRecord } from './market-figures.ts'
import type { MarketFilter, MarketRecord } from './markets.ts'
import type { endedOrders, OrderState, storedOrders } from './orders.ts'
import type { PayoutRecord, payoutsOfUser } from './payouts.ts'
import type {
  MarketHolders,
  PositionRecord,
  positionOf,
  positionsOfUser,
  realisedProfitOf,
  UserPosition,
} from './positions.ts'
import type { ChargesFilter, SettlementCharge } from './settlement-charges.ts'
import type { PendingTrades, pendingTradesWithOrders, permitsOf } from './settlements.ts'
import type { ChainStats, MarketStats } from './stats.ts'
import type {
  earlierTrades,
  failedTradesSince,
  newestPendingTrades,
  recentTrades,
  settledTradesOf,
  TradePage,
  TradeRecord,
} from './trades.ts'
import type { tradesOfUser, UserTrades } from './user-trades.ts'
import type { Withdrawn, withdrawers, withdrawnBy } from './withdrawn.ts'

export type Queries = {
  apiKeyById: { takes: { id: string }; answers: ApiKey | undefined }
  deadmanDue: {
    takes: { beforeMs: number; limit: number }
    answers: DeadmanSwitch[]
  }
  orderState: { takes: { orderHash: OrderHash }; answers: OrderState | undefined }
  marketById: { takes: { marketId: MarketId }; answers: MarketRecord | undefined }
  oldestMarketOf: { takes: { idStart: string }; answers: MarketRecord | undefined }
  marketsByContract: { takes: { contractAddress: Address }; answers: MarketRecord[] }
  listMarkets: { takes: MarketFilter; answers: MarketRecord[] }
  recentTrades: { takes: Parameters<typeof recentTrades>[1]; answers: TradeRecord[] }
  earlierTrades: {
    takes: Parameters<typeof earlierTrades>[1]
    answers: Awaited<ReturnType<typeof earlierTrades>>
  }
  tradesOfUser: { takes: Parameters<typeof tradesOfUser>[1]; answers: UserTrades }
  newestPendingTrades: { takes: Parameters<typeof newestPendingTrades>[1]; answers: TradePage }
  failedTradesSince: { takes: Parameters<typeof failedTradesSince>[1]; answers: TradePage }
  marketStats: { takes: { marketId: MarketId; nowMs: number }; answers: MarketStats }
  marketFigures: {
    takes: { marketIds: readonly MarketId[]; nowMs: number }
    answers: MarketFiguresRecord[]
  }
  chainStats: { takes: { chainId?: number; nowMs: number }; answers: ChainStats }
  candles: { takes: CandleFilter; answers: CandleRecord[] }
  positionOf: { takes: Parameters<typeof positionOf>[1]; answers: PositionRecord | undefined }
  positionsOfUser: { takes: Parameters<typeof positionsOfUser>[1]; answers: UserPosition[] }
  realisedProfitOf: { takes: Parameters<typeof realisedProfitOf>[1]; answers: bigint }
  holdersOf: { takes: { marketId: MarketId; limit: number }; answers: MarketHolders }
  payoutsOfUser: { takes: Parameters<typeof payoutsOfUser>[1]; answers: PayoutRecord[] }
  indexedBlock: { takes: { chainId: number }; answers: number | undefined }
  pricesSince: {
    takes: { asset: string; sinceSec: number; limit: number }
    answers: PriceRecord[]
  }
  marksSince: { takes: { sinceSec: number; limit: number }; answers: Mark[] }
  quickMarketsOfAsset: {
    takes: { asset: string; limit: number; beforeSec?: number }
    answers: QuickMarket[]
  }
  quickMarketById: { takes: { id: number }; answers: QuickMarket | undefined }
  unfinishedQuickMarkets: { takes: { limit: number }; answers: QuickMarket[] }
  chainVersion: { takes: object; answers: string }
  listChainMarkets: { takes: ChainMarketFilter; answers: ChainMarketRecord[] }
  chainMarketById: { takes: { marketId: MarketId }; answers: ChainMarketRecord | undefined }
  chainMarketsByContract: { takes: { contractAddress: Address }; answers: ChainMarketRecord[] }
  listEvents: { takes: EventFilter; answers: EventPage }
  eventsBySlug: { takes: { slug: string }; answers: EventRecord[] }
  marketsOfEvents: { takes: Parameters<typeof marketsOfEvents>[1]; answers: EventMarkets[] }
  eventsOfMarkets: { takes: { marketIds: readonly MarketId[] }; answers: MarketEventRecord[] }
  marketsOfContracts: {
    takes: Parameters<typeof marketsOfContracts>[1]
    answers: Awaited<ReturnType<typeof marketsOfContracts>>
  }
  openMarketContracts: { takes: { chainId: number; limit: number }; answers: Address[] }
  followedTokens: { takes: Parameters<typeof followedTokens>[1]; answers: string[] }
  marketsToReconcile: {
    takes: Parameters<typeof marketsToReconcile>[1]
    answers: Awaited<ReturnType<typeof marketsToReconcile>>
  }
  assertionsOfMarket: { takes: { marketId: MarketId }; answers: AssertionRecord[] }
  marketsWithoutPayout: {
    takes: { chainId: number; limit: number }
    answers: ChainMarketRecord[]
  }
  assertionsToSettle: {
    takes: { chainId: number; endedBySec: number; limit: number }
    answers: AssertionRecord[]
  }
  tokensHeldBy: { takes: { holder: Address; chainId: number }; answers: string }
  relayByKey: { takes: { key: RelayKey }; answers: RelayRecord | undefined }
  unfinishedRelays: { takes: { chainId: number; limit: number }; answers: RelayRecord[] }
  relayGasSince: {
    takes: Parameters<typeof relayGasSince>[1]
    answers: number
  }
  confirmedRelaysOf: { takes: Parameters<typeof confirmedRelaysOf>[1]; answers: string[] }
  redemptionOf: { takes: Parameters<typeof redemptionOf>[1]; answers: string | undefined }
  settledTradesOf: { takes: Parameters<typeof settledTradesOf>[1]; answers: number }
  storedOrders: { takes: Parameters<typeof storedOrders>[1]; answers: OrderHash[] }
  claimsByStatus: {
    takes: ClaimFilter
    answers: { claims: ClaimRecord[]; count: number; next: ClaimPlace | undefined }
  }
  pendingTradesWithOrders: {
    takes: Parameters<typeof pendingTradesWithOrders>[1]
    answers: PendingTrades
  }
  settlementCharges: { takes: ChargesFilter; answers: SettlementCharge[] }
  notesOf: { takes: { tradeIds: readonly TradeId[] }; answers: TradeNote[] }
  permitsOf: {
    takes: Parameters<typeof permitsOf>[1]
    answers: Awaited<ReturnType<typeof permitsOf>>
  }
  tradesWithOrders: { takes: { tradeIds: readonly TradeId[] }; answers: TradeWithOrders[] }
  withdrawnBy: { takes: Parameters<typeof withdrawnBy>[1]; answers: Withdrawn }
  withdrawers: { takes: Parameters<typeof withdrawers>[1]; answers: Address[] }
  delegationsOf: { takes: Parameters<typeof delegationsOf>[1]; answers: Delegation[] }
  delegators: { takes: Parameters<typeof delegators>[1]; answers: Address[] }
  tradeNeeds: { takes: { tradeIds: readonly TradeId[] }; answers: NeedsTrade[] }
  journalOf: { takes: JournalFilter; answers: { rows: TransactionRow[]; lastNonce: number } }
  transactionByHash: { takes: { txHash: string }; answers: TransactionRow | undefined }
  publicTrees: { takes: { partition?: number }; answers: PublicTree[] }
  publicTiles: { takes: Parameters<typeof publicTiles>[1]; answers: PublicTile[] }
  publicEntries: { takes: Parameters<typeof publicEntries>[1]; answers: Uint8Array[] }
  publicThroughMs: { takes: { partition: number; size: number }; answers: number }
  orderPlace: { takes: Parameters<typeof orderPlace>[1]; answers: EventPlace | undefined }
  tradePlace: { takes: Parameters<typeof tradePlace>[1]; answers: EventPlace | undefined }
  endedOrders: {
    takes: { orderHashes: readonly OrderHash[] }
    answers: Awaited<ReturnType<typeof endedOrders>>
  }
  publicLeafAt: { takes: { partition: number; atMs: number }; answers: number | undefined }
  publicBooksEnd: { takes: { partition: number }; answers: number }
  publicBookBefore: {
    takes: Parameters<typeof publicBookBefore>[1]
    answers: StoredBook | undefined
  }
  publicSegments: { takes: Parameters<typeof publicSegments>[1]; answers: BookSegment[] }
}

export type QueryName = keyof Queries

/** Runs a named query. */
export type Query = <Name extends QueryName>(
  name: Name,
  args: Queries[Name]['takes'],
) => Promise<Queries[Name]['answers']>

/** Message to the pool. */
export type QueryTask<Name extends QueryName = QueryName> = {
  readonly query: Name
  readonly args: Queries[Name]['takes']
}

/** Runs a query through the pool, or another runner; throws the other side's fault. */
export async function askQuery<Name extends QueryName>(
  pool: { run(task: QueryTask<Name>): Promise<unknown> },
  query: Name,
  args: Queries[Name]['takes'],
): Promise<Queries[Name]['answers']> {
  return answerOf((await pool.run({ query, args })) as StoreReply) as Queries[Name]['answers']
}

/** Reads that scan much of the history of a user or a market. */
const LONG: ReadonlySet<keyof Queries> = new Set([
  'tradesOfUser',
  'payoutsOfUser',
  'candles',
] as const)

/**
 * Returns whether a read takes long: it scans history, by its name or because it is not the first page, or it searches
 * the texts of all markets (0.1 s with 100,000 of them).
 */
export function isLongRead(name: keyof Queries, args: object): boolean {
  if (LONG.has(name)) return true
  const { before, beforeSec, search } = args as Record<string, unknown>
  return before !== undefined || beforeSec !== undefined || search !== undefined
}
