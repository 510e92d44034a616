/**
 * The read routes of a front. They answer from the front's memory or from the database. Only the route that syncs a
 * position also reads the chain.
 */

import { type EventSources, getEvent, listEvents } from '#api/events/list-events.ts'
import { candles } from '#api/markets/candles.ts'
import { keepPages } from '#api/markets/kept-pages.ts'
import { getMarket, listMarkets } from '#api/markets/list-markets.ts'
import { listActivity, listTrades, type TradeSources } from '#api/markets/list-trades.ts'
import { marketStats } from '#api/markets/market-stats.ts'
import { platformStats } from '#api/markets/platform-stats.ts'
import { getOrder } from '#api/orders/get-order.ts'
import {
  getPosition,
  listHolders,
  listPositions,
  type PositionSources,
  syncPosition,
} from '#api/positions/positions.ts'
import { type ChainBalances, makeSyncService } from '#api/positions/sync-service.ts'
import { userActivity } from '#api/positions/user-activity.ts'
import {
  getSettlement,
  listFailedTrades,
  listPendingTrades,
  type SettlementSources,
} from '#api/settlements/settlements.ts'
import type { Settings } from '#config/settings-schema.ts'
import { chainBudgetMs, contractsOf } from '#config/thread-data.ts'
import {
  ANSWERS_KEPT_BYTES_MAX,
  OVER_KEPT_BYTES_MAX,
  OVER_KEPT_MAX,
  READS_KEPT_BYTES_MAX,
  READS_KEPT_MAX,
} from '#domain/limits.ts'
import type { FairTurns } from '#http/fair-turns.ts'
import { joinAnswers } from '#http/joined-answers.ts'
import { keepAnswers } from '#http/kept-answers.ts'
import { lazily } from '#http/lazily.ts'
import { makeReadCache } from '#http/read-cache.ts'
import type { Route } from '#http/route.ts'
import type { MarketBoard } from '#live/market-board.ts'
import type { MarketEvents } from '#live/market-events.ts'
import type { FiguresBook } from '#live/market-figures.ts'
import { makeMarketFinder } from '#live/market-finder.ts'
import type { MarketGateway } from '#live/market-gateway.ts'
import type { SeqWaiters } from '#live/seq-waiters.ts'
import type { Clock } from '#runtime/clock.ts'
import type { Query } from '#store/reads/queries.ts'
import { askWrite, type WriteQueueRef } from '#store/writes/ask-write.ts'
import type { AskPage } from './query-pages.ts'

/**
 * If the exchange uses a chain, cached pages of the market list are used for at most this time before the version of
 * the chain's index is checked again. Without a chain, the front's memory already contains every market that trades, so
 * this limit is not needed.
 */
const CHAIN_MARKETS_KEPT_MS_MAX = 250
const LISTS_KEPT_MAX = 32

type ReadPorts = {
  readonly settings: Settings
  readonly board: MarketBoard
  readonly figures: FiguresBook
  readonly marketEvents: MarketEvents
  readonly waiters: SeqWaiters
  readonly gateway: MarketGateway
  readonly query: Query
  readonly askPage: AskPage
  readonly store: WriteQueueRef
  readonly clock: Clock
  readonly turns: FairTurns | undefined
}

export function readRoutes(ports: ReadPorts): Route[] {
  const { settings, board, figures, marketEvents, waiters, gateway, query, askPage, store } = ports
  const { clock, turns } = ports
  const cache = makeReadCache({
    keepMs: settings.front.readCacheMs,
    entriesMax: READS_KEPT_MAX,
    bytesMax: READS_KEPT_BYTES_MAX,
    clock,
  })
  const kept = keepAnswers({ bytesMax: ANSWERS_KEPT_BYTES_MAX })
  // Cache of answers about ended and unknown markets. It is separate, so that requests with invented ids do not evict
  // answers about open markets.
  const over = makeReadCache({
    keepMs: settings.front.readCacheMs,
    entriesMax: OVER_KEPT_MAX,
    bytesMax: OVER_KEPT_BYTES_MAX,
    clock,
  })
  const hasChain = settings.chains.some(({ rpcUrls }) => rpcUrls.length > 0)
  const keepMs = settings.front.readCacheMs
  const find = makeMarketFinder({
    board,
    storedMarket: (marketId) => query('marketById', { marketId }),
  })
  const trades: TradeSources = {
    ...{ board, waiters, kept, over },
    storedTrades: (marketId, limit, before) => query('recentTrades', { marketId, limit, before }),
    earlierPage: (page) => askPage('earlierTrades', page),
  }
  const positions: PositionSources = {
    positionJson: (asked) => askPage('position', asked),
    positionsPage: (page) => askPage('userPositions', page),
    holders: (marketId, limit) => query('holdersOf', { marketId, limit }),
  }
  const settlements: SettlementSources = {
    pending: (limit, before) => query('newestPendingTrades', { limit, before }),
    failedSince: (sinceMs, limit, before) => query('failedTradesSince', { sinceMs, limit, before }),
    settlementJson: (txHash) => askPage('settlement', { txHash }),
    cache,
    nowMs: clock.nowMs,
  }
  const sync = makeSyncService({
    chains: chainsOf(settings),
    find,
    marketsByContract: (contractAddress) => query('marketsByContract', { contractAddress }),
    write: (args) => askWrite(store, 'syncPosition', args, settings.front.deadlineMs),
    clock,
  })
  return [
    listMarkets({
      ...{ board, figures, marketEvents, waiters, nowMs: clock.nowMs, turns },
      joined: joinAnswers({ listsMax: LISTS_KEPT_MAX }),
      pages: keepPages({
        ...{ board, nowMs: clock.nowMs, pagesMax: LISTS_KEPT_MAX },
        ...(hasChain
          ? {
              keepMs: Math.min(keepMs, CHAIN_MARKETS_KEPT_MS_MAX),
              version: () => query('chainVersion', {}),
            }
          : { keepMs }),
      }),
      storedMarkets: (filter) => query('listMarkets', filter),
      ...(hasChain ? { chainMarkets: (filter) => query('listChainMarkets', filter) } : {}),
    }),
    getMarket({ board, find, waiters, figures, marketEvents, kept, over }),
    ...eventRoutes(ports),
    listTrades(trades),
    listActivity(trades),
    marketStats({
      find,
      sums: (marketId) => query('marketStats', { marketId, nowMs: clock.nowMs() }),
      cache,
    }),
    candles({ find, candles: (filter) => query('candles', filter), cache, clock }),
    platformStats({
      sums: (chainId) =>
        query('chainStats', {
          ...(chainId === undefined ? {} : { chainId }),
          nowMs: clock.nowMs(),
        }),
      openOrders: gateway.countOrders,
      cache,
    }),
    userActivity((page) => askPage('userActivity', page)),
    getOrder((orderHash) => query('orderState', { orderHash })),
    getPosition(positions),
    listPositions(positions),
    listHolders(positions, { find, cache }),
    syncPosition(sync),
    listPendingTrades(settlements),
    listFailedTrades(settlements),
    getSettlement(settlements),
  ]
}

function eventRoutes(ports: ReadPorts): Route[] {
  const { board, figures, marketEvents, waiters, query, clock, turns } = ports
  const sources: EventSources = {
    ...{ board, figures, marketEvents, waiters, nowMs: clock.nowMs, turns },
    listEvents: (filter) => query('listEvents', filter),
    eventsBySlug: (slug) => query('eventsBySlug', { slug }),
    marketsOfEvents: (asked) => query('marketsOfEvents', asked),
  }
  return [listEvents(sources), getEvent(sources)]
}

/** Returns a reader of balances for each chain with an Ethereum node. */
function chainsOf(settings: Settings): Map<number, ChainBalances> {
  const asked = new Map<number, ChainBalances>()
  for (const chain of settings.chains) {
    const { chainId, rpcUrls } = chain
    if (rpcUrls.length === 0) continue
    const contracts = contractsOf(chain)
    // The chain libraries are a fifth of a front's code. They are loaded only when the first request needs them.
    const balances = lazily(async (): Promise<ChainBalances> => {
      const { makeChainClient } = await import('#chain/clients.ts')
      const { headBalances } = await import('./chain/head-balances.ts')
      const client = makeChainClient({ chainId, rpcUrls, budgetMs: chainBudgetMs(settings) })
      return (holder, marketId) => headBalances(client, contracts, holder, marketId)
    })
    asked.set(chainId, async (holder, marketId) => (await balances())(holder, marketId))
  }
  return asked
}
