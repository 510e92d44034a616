/**
 * Runs the named queries. To add a query, add a row to the table; callers (`queries.ts`) derive the types of
 * the query from this table.
 */

import type { Address, MarketId } from '#domain/ids.ts'
import type { Database } from '../engine/database.ts'
import type { StoreReply } from '../engine/reply.ts'
import { storeFault } from '../engine/store-fault.ts'
import { apiKeyById } from '../writes/api-keys.ts'
import { deadmanDue } from '../writes/deadman.ts'
import { checkDelegated } from '../writes/delegated-orders.ts'
import { marksSince, pricesSince } from '../writes/prices.ts'
import { publicBookBefore, publicBooksEnd, publicSegments } from '../writes/public-books.ts'
import {
  orderPlace,
  publicEntries,
  publicLeafAt,
  publicThroughMs,
  publicTiles,
  publicTrees,
  tradePlace,
} from '../writes/public-log.ts'
import {
  quickMarketById,
  quickMarketsOfAsset,
  unfinishedQuickMarkets,
} from '../writes/quick-markets.ts'
import { confirmedRelaysOf, relayByKey, relayGasSince, unfinishedRelays } from '../writes/relays.ts'
import { notesOf } from '../writes/settlement-notes.ts'
import { journalOf, transactionByHash } from '../writes/transactions.ts'
import { candles } from './candles.ts'
import { followedTokens, marketsOfContracts, openMarketContracts } from './chain-known.ts'
import {
  assertionsOfMarket,
  assertionsToSettle,
  chainMarketById,
  chainMarketsByContract,
  chainVersion,
  listChainMarkets,
  marketsToReconcile,
  marketsWithoutPayout,
  tokensHeldBy,
} from './chain-markets.ts'
import { claimsByStatus, redemptionOf } from './claims.ts'
import { delegationsOf, delegators } from './delegates.ts'
import { eventsBySlug, eventsOfMarkets, listEvents, marketsOfEvents } from './events.ts'
import { marketFigures } from './market-figures.ts'
import { listMarkets, marketById, marketsByContract, oldestMarketOf } from './markets.ts'
import { tradeNeeds } from './open-needs.ts'
import { endedOrders, orderState, storedOrders } from './orders.ts'
import { payoutsOfUser } from './payouts.ts'
import {
  holdersOf,
  indexedBlock,
  positionOf,
  positionsOfUser,
  realisedProfitOf,
} from './positions.ts'
import { settlementCharges } from './settlement-charges.ts'
import { pendingTradesWithOrders, permitsOf, tradesWithOrders } from './settlements.ts'
import { chainStats, marketStats } from './stats.ts'
import {
  earlierTrades,
  failedTradesSince,
  newestPendingTrades,
  recentTrades,
  settledTradesOf,
} from './trades.ts'
import { tradesOfUser } from './user-trades.ts'
import { withdrawers, withdrawnBy } from './withdrawn.ts'

const ANSWERS = {
  apiKeyById: (database: Database, { id }: { id: string }) => apiKeyById(database, id),
  deadmanDue,
  orderState,
  marketById: (database: Database, { marketId }: { marketId: MarketId }) =>
    marketById(database, marketId),
  oldestMarketOf: (database: Database, { idStart }: { idStart: string }) =>
    oldestMarketOf(database, idStart),
  marketsByContract: (database: Database, { contractAddress }: { contractAddress: Address }) =>
    marketsByContract(database, contractAddress),
  listMarkets,
  recentTrades,
  earlierTrades,
  tradesOfUser,
  newestPendingTrades,
  failedTradesSince,
  marketStats,
  marketFigures,
  chainStats,
  candles,
  positionOf,
  positionsOfUser,
  realisedProfitOf,
  holdersOf,
  payoutsOfUser,
  indexedBlock,
  pricesSince,
  marksSince,
  quickMarketsOfAsset,
  quickMarketById,
  unfinishedQuickMarkets,
  chainVersion: (database: Database, _: object) => chainVersion(database),
  listChainMarkets,
  chainMarketById: (database: Database, { marketId }: { marketId: MarketId }) =>
    chainMarketById(database, marketId),
  chainMarketsByContract: (database: Database, { contractAddress }: { contractAddress: Address }) =>
    chainMarketsByContract(database, contractAddress),
  listEvents,
  eventsBySlug,
  marketsOfEvents,
  eventsOfMarkets,
  marketsOfContracts,
  openMarketContracts,
  followedTokens,
  marketsToReconcile,
  assertionsOfMarket: (database: Database, { marketId }: { marketId: MarketId }) =>
    assertionsOfMarket(database, marketId),
  assertionsToSettle,
  marketsWithoutPayout,
  tokensHeldBy,
  relayByKey,
  unfinishedRelays,
  relayGasSince,
  confirmedRelaysOf,
  redemptionOf,
  settledTradesOf,
  storedOrders,
  endedOrders,
  claimsByStatus,
  pendingTradesWithOrders,
  settlementCharges,
  tradesWithOrders,
  notesOf,
  withdrawnBy,
  withdrawers,
  delegationsOf,
  delegators,
  checkDelegated,
  permitsOf,
  tradeNeeds,
  journalOf,
  transactionByHash,
  publicTrees,
  publicTiles,
  publicEntries,
  publicThroughMs,
  publicLeafAt,
  orderPlace,
  tradePlace,
  publicBooksEnd,
  publicBookBefore,
  publicSegments,
} satisfies Readonly<Record<string, (database: Database, args: never) => Promise<unknown>>>

export type QueryName = keyof typeof ANSWERS

export type Queries = {
  [Name in QueryName]: {
    takes: Parameters<(typeof ANSWERS)[Name]>[1]
    answers: Awaited<ReturnType<(typeof ANSWERS)[Name]>>
  }
}

/** Message to the pool of query threads. */
export type QueryTask<Name extends QueryName = QueryName> = {
  readonly query: Name
  readonly args: Queries[Name]['takes']
}

/**
 * Answers one task. Faults are returned and not thrown, because a thrown error does not reach another thread intact.
 */
export async function answerQuery<Name extends QueryName>(
  open: () => Promise<Database>,
  { query, args }: QueryTask<Name>,
): Promise<StoreReply> {
  try {
    return { ok: true, answer: await ANSWERS[query](await open(), args as never) }
  } catch (error) {
    return faultReply(error)
  }
}

/** Converts an error to a fault that can be sent to another thread. */
export function faultReply(error: unknown): StoreReply {
  const { code, message, retryable } = storeFault(error)
  return { ok: false, code, message, retryable }
}
