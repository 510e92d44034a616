/** The routes of a front, and the parts behind them that read the database. */

import { readFile } from 'node:fs/promises'
import { registerApiKey, revokeApiKey } from '#api/keys/api-keys.ts'
import { listDelegates } from '#api/keys/delegates.ts'
import { makeKeyService } from '#api/keys/key-service.ts'
import { archive } from '#api/markets/history.ts'
import { orderbook } from '#api/markets/orderbook.ts'
import { resolution } from '#api/markets/resolution.ts'
import { cancelOrder } from '#api/orders/cancel-order.ts'
import { cancelOrders } from '#api/orders/cancel-orders.ts'
import { deadman } from '#api/orders/deadman.ts'
import { listOrders, listUserOrders } from '#api/orders/list-orders.ts'
import { makeOrderService } from '#api/orders/order-service.ts'
import { makeOwnOrders } from '#api/orders/own-orders.ts'
import { placeOrder } from '#api/orders/place-order.ts'
import { placeOrders } from '#api/orders/place-orders.ts'
import { validateOrder } from '#api/orders/validate-order.ts'
import { userFunds } from '#api/positions/funds.ts'
import { priceRoutes } from '#api/prices/prices.ts'
import { quickMarketRoutes } from '#api/prices/quick-markets.ts'
import { failedClaims, pendingClaims } from '#api/relayer/claims.ts'
import { relayerNonces } from '#api/relayer/nonces.ts'
import { relayerOperations } from '#api/relayer/operations.ts'
import { makeRelayService } from '#api/relayer/relay-service.ts'
import { changes } from '#api/service/changes.ts'
import { config } from '#api/service/config.ts'
import { time } from '#api/service/time.ts'
import { contractsOf, type ThreadData, topologyOf } from '#config/thread-data.ts'
import { accountsThreadOf, threadOfMarket } from '#config/topology.ts'
import type { MarketId } from '#domain/ids.ts'
import { streamUrl } from '#domain/price-providers.ts'
import type { DocumentInfo } from '#http/openapi.ts'
import type { Route } from '#http/route.ts'
import { registerSseMeters } from '#http/sse-meters.ts'
import { makeFundsGateway } from '#live/funds-gateway.ts'
import { makeMarketEvents } from '#live/market-events.ts'
import { makeFiguresBook } from '#live/market-figures.ts'
import { makeGateway } from '#live/market-gateway.ts'
import { makeWithdrawnOrders } from '#live/withdrawn-orders.ts'
import { systemClock } from '#runtime/clock.ts'
import type { StageMeter } from '#runtime/stage-meter.ts'
import type { ThreadContext } from '#services/kit/kit.ts'
import { asyncapi } from '#stream/routes/asyncapi.ts'
import { stream } from '#stream/routes/stream.ts'
import { registerStreamMeters } from '#stream/stream-meters.ts'
import { openDeadman } from './deadman.ts'
import { eventMarketsBy } from './event-markets.ts'
import { serviceFacts } from './facts.ts'
import type { LateParts } from './link-ports.ts'
import type { FrontMemory } from './memory.ts'
import type { FrontPools } from './pools.ts'
import { readRoutes } from './reads.ts'
import { openSigners } from './signers.ts'
import { openStream } from './stream.ts'
import { openTransparency } from './transparency.ts'

const CHANGELOG = new URL('../../../CHANGELOG.md', import.meta.url)

type RouteParts = {
  readonly memory: FrontMemory
  readonly late: LateParts
  readonly pools: FrontPools
  readonly about: DocumentInfo
  readonly meter: StageMeter
  /** Publishes a message to the subscribers of a topic of the stream. */
  readonly publish: (topic: string, text: string) => void
}

/** Makes the parts that the routes need, such as services and caches, and returns the routes. */
export function frontRoutes(data: ThreadData, kit: ThreadContext, parts: RouteParts): Route[] {
  const { settings, version } = data
  const { log, registry } = kit
  const { memory, late, pools, about, meter, publish } = parts
  const { board, waiters, sse, assets, priceBoard, findKey, authenticator, links } = memory
  const { turns } = memory
  const { limiter } = memory.limits
  const { query, askPage, verifier, recoverSigner, history } = pools
  const topology = topologyOf(settings)
  const { threads, store } = links
  const clock = systemClock
  const threadOf = (marketId: MarketId) => threadOfMarket(marketId, topology)
  const seqOf = (marketId: MarketId) => board.markets.get(marketId)?.seq
  const gateway = makeGateway(threads, threadOf, clock, { seqOf, caughtUp: links.caughtUp })
  const funds =
    links.accounts.length === 0
      ? undefined
      : makeFundsGateway(
          links.accounts,
          (trader) => accountsThreadOf(trader, settings.risk.threads),
          clock,
        )
  const figuresBook = makeFiguresBook({
    board: () => board,
    stored: (marketIds, nowMs) => query('marketFigures', { marketIds, nowMs }),
    clock,
  })
  late.figures = figuresBook
  const eventNames = makeMarketEvents((marketIds) => query('eventsOfMarkets', { marketIds }))
  late.marketEvents = eventNames
  const chainIds = new Set(settings.chains.map(({ chainId }) => chainId))
  const withdrawn = makeWithdrawnOrders({
    chainIds,
    withdrawers: (chainId, limit) => query('withdrawers', { chainId, limit }),
    withdrawnBy: (asked) => query('withdrawnBy', asked),
    after: (ms, then) => void setTimeout(then, ms).unref(),
  })
  const signing = openSigners(settings, {
    ...{ chainIds, query, store, clock, log },
    limit: limiter?.contractSignatures,
  })
  const { delegates } = signing
  const { actsOn } = delegates
  Object.assign(late, { withdrawn, delegates, contracts: signing.contracts })
  const switches = openDeadman({
    ...{ store, query, gateway, actsOn, clock, log },
    every: kit.every,
  })
  const orders = makeOrderService({
    ...{ board, gateway, funds, verifier, clock, meter, withdrawn },
    signers: signing.signers,
    actsOn,
    known: (marketId) => links.known(threadOf(marketId)),
    followed: waiters.untilFollowed,
    minNotional: settings.risk.minNotional,
    expirationDaysMax: settings.orders.expirationDaysMax,
    settleSec: settings.settlement.maxLagSeconds,
    ...(limiter === undefined ? {} : { unfunded: limiter.unfunded }),
  })
  const ownOrders = makeOwnOrders({ board, gateway, switches, actsOn, nowMs: clock.nowMs })
  const transparency = openTransparency(settings, query, clock)
  const opened = openStream(data, {
    ...{ board, gateway, orders, ownOrders, threads, authenticator, limiter, assets, log },
    figures: figuresBook,
    funds: funds === undefined ? undefined : { gateway: funds, chainIds },
    use: links.use,
    eventMarkets: eventMarketsBy(query),
    receipts: transparency.receipts,
    tracer: kit.tracer,
    ...{ publish, turns },
  })
  const { hub } = opened
  Object.assign(late, { hub, heldSessions: opened.heldSessions })
  registerStreamMeters(registry, hub)
  registerSseMeters(registry, sse)
  const keys = makeKeyService({
    service: settings.service.name,
    store,
    findKey,
    recoverSigner,
    contractSigned: signing.contractSigned,
    nowMs: clock.nowMs,
  })
  const relays = makeRelayService({
    chains: links.relayers.map(({ chain, relayer }) => ({
      chainId: chain.chainId,
      relayer,
      terms: {
        role: chain.role,
        ...contractsOf(chain),
        deadlineAheadSecMax: settings.relayer.deadlineAheadSecMax,
        redemptionsMax: settings.relayer.redemptionsMax,
      },
    })),
    nowMs: clock.nowMs,
  })
  return [
    placeOrder(orders, transparency.receipts),
    placeOrders(orders, transparency.receipts),
    validateOrder(orders),
    listOrders({ board, gateway }),
    listUserOrders({ board, gateway }),
    cancelOrder(gateway, ownOrders, transparency.receipts),
    cancelOrders(ownOrders),
    listDelegates(delegates, chainIds, clock.nowMs),
    deadman(ownOrders),
    registerApiKey(keys, clock.nowMs, settings.service.name),
    revokeApiKey(keys, authenticator, settings.service.name),
    orderbook({ board, waiters, history }),
    archive(history),
    userFunds(funds, chainIds),
    ...readRoutes({
      ...{ settings, board, waiters, gateway, query, askPage, store, clock, turns },
      ...{ figures: figuresBook, marketEvents: eventNames },
    }),
    resolution({
      board,
      chainMarket: (marketId) => query('chainMarketById', { marketId }),
      assertions: (marketId) => query('assertionsOfMarket', { marketId }),
      nowMs: clock.nowMs,
    }),
    ...relayerOperations(relays),
    relayerNonces(relays, clock.nowMs),
    pendingClaims((filter) => query('claimsByStatus', filter)),
    failedClaims((filter) => query('claimsByStatus', filter)),
    ...priceRoutes({
      board: priceBoard,
      hub: sse,
      urlOf: (source) => streamUrl(source, settings.feeds[source]),
      ageMsMax: settings.feeds.ageMsMax,
      nowMs: clock.nowMs,
    }),
    ...quickMarketRoutes({
      prices: priceBoard,
      board,
      waiters,
      list: (asset, limit, beforeSec) =>
        query('quickMarketsOfAsset', {
          asset,
          limit,
          ...(beforeSec === undefined ? {} : { beforeSec }),
        }),
      find: (id) => query('quickMarketById', { id }),
      nowMs: clock.nowMs,
    }),
    ...transparency.routes,
    config(serviceFacts(settings, version, assets), clock),
    time(clock),
    changes(settings.service.name, () => readFile(CHANGELOG, 'utf8')),
    stream(hub, opened.settings),
    asyncapi(about),
  ]
}
