/** Runs the named queries. */

import type { Database } from '../engine/database.ts'
import type { StoreReply } from '../engine/reply.ts'
import { storeFault } from '../engine/store-fault.ts'
import { apiKeyById } from '../writes/api-keys.ts'
import { deadmanDue } from '../writes/deadman.ts'
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
import type { Queries, QueryName, QueryTask } from './queries.ts'
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

const answers: {
  readonly [Name in QueryName]: (
    database: Database,
    args: Queries[Name]['takes'],
  ) => Promise<Queries[Name]['answers']>
} = {
  apiKeyById: (database, { id }) => apiKeyById(database, id),
  deadmanDue,
  orderState,
  marketById: (database, { marketId }) => marketById(database, marketId),
  oldestMarketOf: (database, { idStart }) => oldestMarketOf(database, idStart),
  marketsByContract: (database, { contractAddress }) =>
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
  chainVersion,
  listChainMarkets,
  chainMarketById: (database, { marketId }) => chainMarketById(database, marketId),
  chainMarketsByContract: (database, { contractAddress }) =>
    chainMarketsByContract(database, contractAddress),
  listEvents,
  eventsBySlug,
  marketsOfEvents,
  eventsOfMarkets,
  marketsOfContracts,
  openMarketContracts,
  followedTokens,
  marketsToReconcile,
  assertionsOfMarket: (database, { marketId }) => assertionsOfMarket(database, marketId),
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
}

/** Answers one task. Faults are returned, not thrown, because an error does not cross a thread intact. */
export async function answerQuery<Name extends QueryName>(
  open: () => Promise<Database>,
  { query, args }: QueryTask<Name>,
): Promise<StoreReply> {
  try {
    return { ok: true, answer: await answers[query](await open(), args) }
  } catch (error) {
    return faultReply(error)
  }
}

/** A fault in the form that crosses a thread. */
export function faultReply(error: unknown): StoreReply {
  const { code, message, retryable } = storeFault(error)
  return { ok: false, code, message, retryable }
}
