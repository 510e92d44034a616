/** A front thread: the HTTP server with its routes, and references to other threads. */

import { readFile } from 'node:fs/promises'
import { makeEventPreview } from '#api/events/event-preview.ts'
import { registerApiKey, revokeApiKey } from '#api/keys/api-keys.ts'
import { listDelegates } from '#api/keys/delegates.ts'
import { makeKeyService } from '#api/keys/key-service.ts'
import { archive } from '#api/markets/history.ts'
import { type ChancePorts, makeMarketPreview } from '#api/markets/market-preview.ts'
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
import { aboutApi } from '#api/service/about-api.ts'
import { changes } from '#api/service/changes.ts'
import { config } from '#api/service/config.ts'
import { DEPRECATIONS } from '#api/service/deprecations.ts'
import { time } from '#api/service/time.ts'
import { isLoopback } from '#config/settings.ts'
import { contractsOf, type ThreadData, topologyOf } from '#config/thread-data.ts'
import { accountsThreadOf, BRIDGE_THREAD, threadOfMarket } from '#config/topology.ts'
import type { MarketId } from '#domain/ids.ts'
import { streamUrl } from '#domain/price-providers.ts'
import { makeAuthenticator } from '#http/auth.ts'
import { withDeprecations } from '#http/deprecation.ts'
import { makeNonceLedger } from '#http/nonce-ledger.ts'
import type { Route } from '#http/route.ts'
import type { PagePreviews } from '#http/routes/page.ts'
import type { Readiness } from '#http/routes/readyz.ts'
import { type Front, startFront } from '#http/server.ts'
import { makeSseHub } from '#http/sse.ts'
import { registerSseMeters } from '#http/sse-meters.ts'
import type { ContractSignatures } from '#live/contract-signatures.ts'
import type { Delegates } from '#live/delegates.ts'
import { makeFundsGateway } from '#live/funds-gateway.ts'
import { makeBoard } from '#live/market-board.ts'
import { type MarketEvents, makeMarketEvents } from '#live/market-events.ts'
import { type FiguresBook, makeFiguresBook } from '#live/market-figures.ts'
import { makeGateway } from '#live/market-gateway.ts'
import { makePriceBoard } from '#live/price-board.ts'
import { makeSeqWaiters } from '#live/seq-waiters.ts'
import { makeWithdrawnOrders, type WithdrawnOrders } from '#live/withdrawn-orders.ts'
import { systemClock } from '#runtime/clock.ts'
import { makeStageMeter } from '#runtime/stage-meter.ts'
import type { RemoteSupervisor, Thread } from '#runtime/thread.ts'
import { openLimiter } from '#services/kit/draws.ts'
import { makeThreadContext } from '#services/kit/kit.ts'
import { makeOperation } from '#services/kit/operation.ts'
import type { HeldSessions } from '#stream/held-sessions.ts'
import type { StreamHub } from '#stream/hub.ts'
import { asyncapi } from '#stream/routes/asyncapi.ts'
import { stream } from '#stream/routes/stream.ts'
import { registerStreamMeters } from '#stream/stream-meters.ts'
import { openDeadman } from './deadman.ts'
import { eventMarketsBy } from './event-markets.ts'
import { liveExamples } from './examples.ts'
import { serviceFacts } from './facts.ts'
import { linkFront } from './links.ts'
import { pageRoutes } from './page.ts'
import { partitionMeters } from './partition-metrics.ts'
import { type FrontPools, openFrontPools } from './pools.ts'
import { readRoutes } from './reads.ts'
import { openSigners } from './signers.ts'
import { openStream } from './stream.ts'
import { openTokenClaims } from './tokens.ts'
import { openTransparency } from './transparency.ts'
import { verifyMeters } from './verify-metrics.ts'

const CHANGELOG = new URL('../../../CHANGELOG.md', import.meta.url)

/** Number of idle checks per idle timeout. */
const RESTS = 4

export function frontThread(data: ThreadData): Thread {
  const { settings, port, version } = data
  const topology = topologyOf(settings)
  const kit = makeThreadContext(data)
  const { log, registry } = kit
  const meter = makeStageMeter(registry)
  const about = aboutApi(settings.service.name)
  let front: Front | undefined
  /** Server for operators, if it has its own port. */
  let admin: Front | undefined
  let hub: StreamHub | undefined
  let heldSessions: HeldSessions | undefined
  let pools: FrontPools | undefined
  let figures: FiguresBook | undefined
  let withdrawn: WithdrawnOrders | undefined
  let delegates: Delegates | undefined
  let contracts: ContractSignatures | undefined
  let marketEvents: MarketEvents | undefined

  // A worker that exits while its app is open ends the whole process, so the app is closed first even after a bug. The
  // supervisor then restarts the thread.
  process.once('uncaughtException', (error) => {
    log.fatal({ err: error }, 'this thread ends because of a bug')
    void hub?.shutdown({ atOnce: true })
    void closeFronts({ drainMs: 0 }).finally(() => process.exit(1))
  })

  async function closeFronts(how?: { readonly drainMs: number }): Promise<void> {
    await Promise.all([admin?.close(how), front?.close(how)])
  }

  const board = makeBoard(
    { isWhole: () => links.isWhole(), isCurrent: (marketId) => links.isCurrent(marketId) },
    {
      followed(shown, event) {
        if (event.type === 'TradeFailed') figures?.touched(event.marketId)
        hub?.followed(shown, event)
        waiters.advanced(shown)
      },
      loaded(shown, missed, dozed) {
        if (missed) figures?.touched(shown.market.id)
        hub?.loaded(shown, missed, dozed)
        waiters.advanced(shown)
      },
      forgotten(marketId) {
        figures?.forgotten(marketId)
        hub?.forgotten(marketId)
      },
    },
  )
  const waiters = makeSeqWaiters(() => board, systemClock, {
    need: (marketId) => links.use?.need(marketId),
    needThese: (markets) => links.use?.needThese(markets) ?? true,
  })
  const sse = makeSseHub(settings.sse, systemClock)
  /** Assets with prices; none without providers. */
  const assets = settings.feeds.live ? settings.feeds.assets : []
  const priceBoard = makePriceBoard(
    { assets, replayEvents: settings.sse.replayEvents },
    {
      priced: (asset, event) => hub?.priced(asset, event),
      streamed: (asset, text) => sse.publish(asset, text),
      quickMarket: (asset, event) => hub?.quickMarket(asset, event),
    },
  )
  const findKey = async (id: string) => pools?.findKey(id)
  const tokens = openTokenClaims(settings, systemClock, kit, data.nonces.secret)
  const authenticator = makeAuthenticator({
    findKey,
    nonces: makeNonceLedger(data.nonces),
    claim: tokens?.claim,
    singleUse: settings.auth.singleUseNonce,
    clock: systemClock,
    startedAtMs: data.startedAtMs,
  })
  const limits = openLimiter(data, kit)
  const { limiter } = limits
  const links = linkFront(settings, {
    ...{ board, priceBoard, authenticator, log, meters: kit.links },
    hub: () => hub,
    heldSessions: () => heldSessions,
    withdrawn: () => withdrawn,
    delegates: () => delegates,
    contracts: () => contracts,
    marketEvents: () => marketEvents,
    woken() {
      hub?.woken()
      waiters.woken()
    },
  })
  const { use } = links
  if (use !== undefined) kit.every(settings.cluster.dozeMs / RESTS, use.rest)
  partitionMeters(registry, links.followed)
  verifyMeters(registry, async () => (await pools?.verifySeconds()) ?? 0)

  function routes({ query, askPage, verifier, recoverSigner, history }: FrontPools): Route[] {
    const { threads, store } = links
    const clock = systemClock
    const threadOf = (marketId: MarketId) => threadOfMarket(marketId, topology)
    const seqOf = (marketId: MarketId) => board.markets.get(marketId)?.seq
    const gateway = makeGateway(threads, threadOf, clock, { seqOf, heardAll: links.heardAll })
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
    figures = figuresBook
    const eventNames = makeMarketEvents((marketIds) => query('eventsOfMarkets', { marketIds }))
    marketEvents = eventNames
    const chainIds = new Set(settings.chains.map(({ chainId }) => chainId))
    withdrawn = makeWithdrawnOrders({
      chainIds,
      withdrawers: (chainId, limit) => query('withdrawers', { chainId, limit }),
      withdrawnBy: (asked) => query('withdrawnBy', asked),
      after: (ms, then) => void setTimeout(then, ms).unref(),
    })
    const signing = openSigners(settings, {
      ...{ chainIds, query, store, clock, log },
      limit: limiter?.contractSignatures,
    })
    delegates = signing.delegates
    const { actsOn } = delegates
    contracts = signing.contracts
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
      publish: (topic, text) => void front?.publish(topic, text),
    })
    hub = opened.hub
    heldSessions = opened.heldSessions
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
      listDelegates(signing.delegates, chainIds, clock.nowMs),
      deadman(ownOrders),
      registerApiKey(keys, clock.nowMs, settings.service.name),
      revokeApiKey(keys, authenticator, settings.service.name),
      orderbook({ board, waiters, history }),
      archive(history),
      userFunds(funds, chainIds),
      ...readRoutes({
        ...{ settings, board, waiters, gateway, query, askPage, store, clock },
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

  function previews({ query }: FrontPools): PagePreviews {
    const chances: ChancePorts = {
      board,
      figures: {
        prepare: async (marketIds) => figures?.prepare(marketIds),
        of: (marketId) => figures?.of(marketId),
      },
    }
    return {
      market: makeMarketPreview({
        ...chances,
        oldestMarket: (idStart) => query('oldestMarketOf', { idStart }),
      }),
      event: makeEventPreview({
        ...chances,
        nowMs: systemClock.nowMs,
        eventsBySlug: (slug) => query('eventsBySlug', { slug }),
        marketsOfEvent: async ({ chainId, hash }, perEvent) => {
          const [members] = await query('marketsOfEvents', { chainId, hashes: [hash], perEvent })
          return members?.markets ?? []
        },
      }),
    }
  }

  async function start(supervisor: RemoteSupervisor): Promise<void> {
    pools = openFrontPools(settings, log)
    const { adminHost, adminPort } = settings.front
    const plain = {
      sharePort: settings.front.threads > 1,
      corsOrigins: settings.front.corsOrigins,
      deadlineMs: settings.front.deadlineMs,
      requestsInFlightMax: settings.front.requestsInFlightMax,
      connectionsMax: settings.front.connectionsMax,
    }
    const operating = makeOperation(settings, kit.clock, supervisor, readiness)
    front = await startFront({
      routes: [
        ...withDeprecations(routes(pools), DEPRECATIONS),
        ...pageRoutes(settings, supervisor, previews(pools)),
      ],
      operation: adminPort === 0 ? 'here' : 'apart',
      isPrivate: isLoopback(settings.front.host) && settings.front.trustedProxies.length === 0,
      settings: {
        ...plain,
        host: settings.front.host,
        port,
        trustedProxies: settings.front.trustedProxies,
        logEvery: settings.logging.requestsEvery,
        ...(settings.limits.enabled
          ? {
              connectionsPerIpMax: settings.front.connectionsPerIpMax,
              siteTimes: settings.limits.siteTimes,
            }
          : {}),
      },
      services: {
        authenticate: ({ authorization }) => authenticator.identify(authorization),
        ...(settings.auth.bearer ? {} : { asks: (auth) => auth === 'token' }),
        ...limiter,
        ...operating,
      },
      info: about,
      ...liveExamples(settings, board, systemClock.nowMs),
      log,
      registry,
      meter,
      tracer: kit.tracer,
    })
    if (adminPort !== 0) {
      admin = await startFront({
        ...{ routes: [], operation: 'alone', services: operating, info: about, log },
        settings: { ...plain, host: adminHost, port: adminPort },
      })
    }
    const engines = await pools.engines()
    log.info({ port: front.port }, `the front listens; signatures by ${engines}`)
  }

  /** Checks in addition to those of the threads. */
  function readiness(): Readiness {
    const why = links.why()
    const markets = { ok: why === '', why }
    if (assets.length === 0) return { markets }
    // Without prices only quick markets stop, so the exchange counts as ready.
    const silent = priceBoard.why()
    return { markets, 'price sources': { ok: silent === '', why: silent, optional: true } }
  }

  return {
    start,
    connect(peer, port) {
      if (peer === BRIDGE_THREAD) limits.connect(port)
      else links.connect(peer, port)
    },
    health: links.why,
    metrics: kit.metrics,
    async drain() {
      sse.shutdown()
      await hub?.shutdown()
      await closeFronts()
    },
    async stop() {
      await hub?.shutdown()
      await closeFronts()
      links.close()
      limits.close()
      kit.quiet()
      await pools?.close()
      await tokens?.close()
    },
  }
}
