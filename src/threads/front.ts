/** A front thread: the HTTP server with its routes, and the references to what stands behind it. */

import type { MessagePort } from 'node:worker_threads'
import { AggregatorRegistry, Registry } from 'prom-client'
import type { ApiKeysProtocol, KeyNews } from '#actors/api-keys.ts'
import type { ClerkProtocol } from '#actors/clerk.ts'
import type { ChainNews } from '#actors/indexer.ts'
import { MARKET_FORMS } from '#actors/market-forms.ts'
import type { MarketNews, MarketThreadProtocol } from '#actors/market-thread.ts'
import type { HoldsProtocol } from '#actors/order-holds.ts'
import { readRows } from '#actors/packed-event.ts'
import type { PriceDesk, PriceNews } from '#actors/prices.ts'
import type { RelayerProtocol } from '#actors/relayer.ts'
import { registerApiKey, revokeApiKey } from '#api/keys/api-keys.ts'
import { makeKeyDesk } from '#api/keys/key-desk.ts'
import { orderbook } from '#api/markets/orderbook.ts'
import { resolution } from '#api/markets/resolution.ts'
import { cancelOrder } from '#api/orders/cancel-order.ts'
import { cancelOrders } from '#api/orders/cancel-orders.ts'
import { listOrders, listUserOrders } from '#api/orders/list-orders.ts'
import { makeOrderService, type OrderVerifier } from '#api/orders/order-service.ts'
import { placeOrder } from '#api/orders/place-order.ts'
import { placeOrders } from '#api/orders/place-orders.ts'
import { validateOrder } from '#api/orders/validate-order.ts'
import { priceRoutes } from '#api/prices/prices.ts'
import { quickMarketRoutes } from '#api/prices/quick-markets.ts'
import { failedClaims, pendingClaims } from '#api/relayer/claims.ts'
import { relayerNonces } from '#api/relayer/nonces.ts'
import { relayerOperations } from '#api/relayer/operations.ts'
import { makeRelayDesk } from '#api/relayer/relayer-desk.ts'
import { type ChainFacts, config } from '#api/service/config.ts'
import { DEVNET_CHAIN_ID } from '#config/devnet.ts'
import { makeLog } from '#config/logging.ts'
import {
  channelOptions,
  databaseUrlOf,
  quickChain,
  relayedChains,
  stablecoinOf,
  type ThreadData,
  topologyOf,
} from '#config/thread-data.ts'
import {
  marketThreadName,
  PRICES_THREAD,
  partitionOf,
  relayerThreadName,
  threadOf,
} from '#config/topology.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import { BODY_BYTES_MAX } from '#domain/limits.ts'
import { isRejection, type Rejection } from '#domain/rejection.ts'
import { makeAuthenticator } from '#http/auth.ts'
import { makeLimiter } from '#http/limits.ts'
import { makeNonceLedger } from '#http/nonce-ledger.ts'
import type { Route } from '#http/route.ts'
import type { Readiness } from '#http/routes/readyz.ts'
import { type Front, startFront } from '#http/server.ts'
import { makeSseHub } from '#http/sse.ts'
import { registerSseMeters } from '#http/sse-meters.ts'
import { makeBoard } from '#live/market-board.ts'
import { makeGateway } from '#live/market-gateway.ts'
import { makePriceBoard } from '#live/price-board.ts'
import { Channel, isUnanswered } from '#runtime/channel.ts'
import { systemClock } from '#runtime/clock.ts'
import { makePool, type Pool } from '#runtime/pool.ts'
import { makeRef } from '#runtime/ref.ts'
import { makeStageMeter } from '#runtime/stage-meter.ts'
import type { RemoteHome, ThreadParts } from '#runtime/thread.ts'
import { askQuery, type Queries, type QueryName } from '#store/queries.ts'
import { makeConnectionCount } from '#stream/connection-count.ts'
import { type HeldOrders, makeHeldOrders } from '#stream/held-orders.ts'
import {
  MALFORMED_MAX,
  makeStreamHub,
  type StreamHub,
  type StreamParts,
  WINDOW_MS,
} from '#stream/hub.ts'
import { resolutionStep } from '#stream/resolution-step.ts'
import { asyncapi } from '#stream/routes/asyncapi.ts'
import { stream } from '#stream/routes/stream.ts'
import { registerStreamMeters } from '#stream/stream-meters.ts'
import { createBatcher, TASKS_PER_WORKER } from '#verify/batcher.ts'
import { type OrderInspection, type SignedOrder, verifiedOrder } from '#verify/inspect-orders.ts'
import { readRoutes } from './front-reads.ts'

/** Tasks that wait for a free thread of a pool; one more is refused. */
const POOL_QUEUE_MAX = 10_000

export function frontThread(data: ThreadData): ThreadParts {
  /** The pause before a market thread that could not tell its markets is asked again. */
  const LOAD_AGAIN_MS = 100

  const { name, settings, isTerminal, port, version } = data
  const log = makeLog(settings.log, name, isTerminal)
  const topology = topologyOf(settings)
  const registry = new Registry()
  registry.setDefaultLabels({ thread: name })
  const meter = makeStageMeter(registry)

  const board = makeBoard(
    {
      isWhole: () => known.size === threads.length,
      isCurrent: () => loaded.size === threads.length,
    },
    {
      followed: (shown, event) => hub?.followed(shown, event),
      loaded: (shown, missed) => hub?.loaded(shown, missed),
    },
  )
  const threads = Array.from({ length: topology.marketThreads }, () =>
    makeRef<MarketThreadProtocol & HoldsProtocol>(),
  )
  const store = makeRef<ApiKeysProtocol & ClerkProtocol>()
  const relayers = relayedChains(settings).map((chain) => ({
    chain,
    relayer: makeRef<RelayerProtocol>(),
  }))
  const prices = makeRef<PriceDesk>()
  const sse = makeSseHub(settings.sse, systemClock)
  /** The assets that have prices here; none without providers. */
  const assets = settings.feeds.live ? settings.feeds.assets : []
  const priceBoard = makePriceBoard(
    { assets, replayEvents: settings.sse.replayEvents },
    {
      priced: (asset, event) => hub?.priced(asset, event),
      streamed: (asset, text) => sse.publish(asset, text),
      quickMarket: (asset, event) => hub?.quickMarket(asset, event),
    },
  )
  const chainNews = makeRef<ChainNews>()
  /** The market threads whose markets are on the board as they are now. */
  const loaded = new Set<number>()
  /** The market threads that have told their markets at least once. */
  const known = new Set<number>()

  let front: Front | undefined
  let hub: StreamHub | undefined
  let heldOrders: HeldOrders | undefined
  let verifyPool: Pool
  let queryPool: Pool

  // A worker that exits while its app is open takes the whole process down, so even after a bug the
  // app is closed first. The supervisor then starts the thread again.
  process.once('uncaughtException', (error) => {
    log.fatal({ err: error }, 'a bug ends this thread')
    void hub?.shutdown()
    void (front?.close({ drainMs: 0 }) ?? Promise.resolve()).finally(() => process.exit(1))
  })

  function followThread(index: number, peerPort: MessagePort): void {
    const ref = threads[index]
    if (ref === undefined) return
    const hearers: { [K in keyof MarketNews]: (message: MarketNews[K]['takes']) => void } = {
      MarketEvents({ rows }) {
        if (!board.follow(readRows(rows))) void load(index)
      },
      MarketsReloaded({ views }) {
        for (const view of views) board.load(view)
      },
    }
    const channel = new Channel<MarketThreadProtocol & HoldsProtocol>(
      peerPort,
      { ...channelOptions(settings), forms: MARKET_FORMS },
      {
        heard: (type, message) => hearers[type as keyof MarketNews](message as never),
        closed: () => loaded.delete(index),
      },
    )
    ref.replace(channel)
    heldOrders?.repeat(index)
    void load(index)
  }

  function followStore(peerPort: MessagePort): void {
    const hearers: { [K in keyof KeyNews]: (message: KeyNews[K]['takes']) => void } = {
      KeysRevoked({ ids }) {
        authenticator.revoked(ids)
        hub?.revoked(ids)
      },
    }
    store.replace(
      new Channel(peerPort, channelOptions(settings), {
        heard: (type, message) => hearers[type as keyof KeyNews](message as never),
      }),
    )
    // What the store before this one said last may not have arrived.
    authenticator.unheard()
  }

  function followPrices(peerPort: MessagePort): void {
    const hearers: { [K in keyof PriceNews]: (message: PriceNews[K]['takes']) => void } = {
      Priced: ({ price }) => priceBoard.priced(price),
      SpeakerChanged: ({ asset, source, why }) => priceBoard.speakerChanged(asset, source, why),
      QuickMarketOpened: ({ quickMarket, atMs }) => priceBoard.quickMarketOpened(quickMarket, atMs),
      QuickMarketResolved: ({ quickMarket, atMs }) =>
        priceBoard.quickMarketResolved(quickMarket, atMs),
    }
    prices.replace(
      new Channel(peerPort, channelOptions(settings), {
        heard: (type, message) => hearers[type as keyof PriceNews](message as never),
        closed: () => priceBoard.lost(),
      }),
    )
    void loadPrices()
  }

  async function loadPrices(): Promise<void> {
    const answer = await prices.ask('Load', {})
    if (!isUnanswered(answer)) {
      priceBoard.load(answer.assets, answer.active, systemClock.nowMs())
    } else if (prices.isOpen) setTimeout(() => void loadPrices(), LOAD_AGAIN_MS).unref()
  }

  /** What the chain tells: the steps of resolutions go out on the stream. */
  function followIndexer(peerPort: MessagePort): void {
    const hearers: { [K in keyof ChainNews]: (message: ChainNews[K]['takes']) => void } = {
      ChainAdvanced({ events }) {
        for (const event of events) {
          const step = resolutionStep(event)
          if (step === undefined) continue
          hub?.marketHappened(step.marketId, step.event, step.facts, event.atSec * 1_000)
        }
      },
      ChainRewound({ to, reverted }) {
        const facts = { blockNumber: to.number }
        for (const id of reverted) hub?.marketHappened(id, 'reverted', facts, to.atSec * 1_000)
      },
    }
    chainNews.replace(
      new Channel<ChainNews>(peerPort, channelOptions(settings), {
        heard: (type, message) => hearers[type as keyof ChainNews](message as never),
      }),
    )
  }

  async function load(index: number): Promise<void> {
    const ref = threads[index]
    const answer = await ref?.ask('Markets', {})
    if (answer === undefined || isUnanswered(answer) || isRejection(answer)) {
      // Too busy, or its log is away. When the thread is gone, its next one is asked instead.
      if (ref?.isOpen === true) setTimeout(() => void load(index), LOAD_AGAIN_MS).unref()
      return
    }
    for (const view of answer.views) board.load(view)
    loaded.add(index)
    known.add(index)
  }

  function makeVerifier(): OrderVerifier {
    const batcher = createBatcher<SignedOrder, OrderInspection | Rejection>({
      workers: settings.verify.threads,
      run: (orders) =>
        verifyPool.run(orders, 'inspectOrders') as Promise<(OrderInspection | Rejection)[]>,
      deadlineMs: settings.front.deadlineMs,
      onFailure: (error) => log.error({ err: error }, 'a verify task failed'),
    })
    return {
      inspect: (signed) => batcher.ask(signed),
      verified: (signed, inspection, permit) => verifiedOrder(signed, inspection, permit),
    }
  }

  const query: <Name extends QueryName>(
    name: Name,
    args: Queries[Name]['takes'],
  ) => Promise<Queries[Name]['answers']> = (name, args) =>
    askQuery({ run: (task) => queryPool.run(task, 'answer') }, name, args)

  const findKey = (id: string) => query('apiKeyById', { id })

  const authenticator = makeAuthenticator({
    findKey,
    nonces: makeNonceLedger(data.nonces),
    singleUse: settings.auth.singleUseNonce,
    clock: systemClock,
    startedAtMs: data.startedAtMs,
  })

  const relayDesk = makeRelayDesk({
    chains: relayers.map(({ chain, relayer }) => ({
      chainId: chain.chainId,
      relayer,
      terms: {
        role: chain.role,
        settlement: chain.contracts.settlement.toLowerCase() as Address,
        conditionalTokens: chain.contracts.conditionalTokens.toLowerCase() as Address,
        stablecoin: chain.contracts.stablecoin.toLowerCase() as Address,
        deadlineAheadSecMax: settings.relayer.deadlineAheadSecMax,
        redemptionsMax: settings.relayer.redemptionsMax,
      },
    })),
    nowMs: systemClock.nowMs,
  })

  const limiter = settings.limits.enabled ? makeLimiter(settings.limits, data.buckets) : undefined

  const keyDesk = makeKeyDesk({
    service: settings.service.name,
    store,
    findKey,
    async recoverSigner(message, signature) {
      const signer = await verifyPool.run({ message, signature }, 'recoverMessageSigner')
      return (signer as Address | null) ?? undefined
    },
    nowMs: systemClock.nowMs,
  })

  /** A write on the stream costs what it costs over HTTP: from its address, and from its key. */
  const drawWrite: NonNullable<StreamParts['drawWrite']> = (ip, principal) => {
    if (limiter === undefined) return true
    const arrival = {
      requestId: '',
      route: '/api/v1/stream',
      auth: 'write',
      cost: 'write',
      ip,
      authorization: '',
      deadlineAtMs: 0,
    } as const
    if (!limiter.limit(arrival, undefined).allowed) return false
    return principal === undefined || limiter.limit(arrival, principal).allowed
  }

  /** Where a chain is reached may be nobody else's business; on the devnet it is everybody's. */
  function chainFacts(chain: (typeof settings.chains)[number]): ChainFacts {
    const { chainId, role, rpcUrls, blockExplorer, contracts } = chain
    const address = (name: keyof typeof contracts) => contracts[name].toLowerCase() as Address
    return {
      chainId,
      role,
      ...(chainId === DEVNET_CHAIN_ID && rpcUrls[0] !== undefined ? { rpcUrl: rpcUrls[0] } : {}),
      ...(blockExplorer === '' ? {} : { blockExplorer }),
      contracts: {
        settlement: address('settlement'),
        conditionalTokens: address('conditionalTokens'),
        stablecoin: address('stablecoin'),
        marketFactory: address('marketFactory'),
        multicall: address('multicall'),
        oracle: address('oracle'),
      },
      stablecoin: { ...chain.stablecoin, ...stablecoinOf(chain) },
    }
  }

  function routes(): Route[] {
    const threadOfMarket = (marketId: MarketId) =>
      threadOf(partitionOf(marketId, topology), topology)
    const gateway = makeGateway(threads, threadOfMarket, systemClock)
    const verifier = makeVerifier()
    const orders = makeOrderService({ board, gateway, verifier, clock: systemClock, meter })
    const facts = {
      name: settings.service.name,
      version,
      bearer: settings.auth.bearer,
      singleUse: settings.auth.singleUseNonce,
      deadlineMs: settings.front.deadlineMs,
      rates: settings.limits.enabled
        ? { ...settings.limits, connectionsPerIpMax: settings.front.connectionsPerIpMax }
        : undefined,
      stream: { ...settings.stream, malformedMax: MALFORMED_MAX, windowMs: WINDOW_MS },
      chains: settings.chains.map(chainFacts),
      relayer: relayers.length === 0 ? undefined : settings.relayer,
      quickMarkets: {
        assets,
        ...(quickChain(settings) === undefined
          ? {}
          : { intervalSeconds: settings.quick.intervalSeconds }),
      },
    }
    const streamSettings = {
      ...settings.stream,
      deadlineMs: settings.front.deadlineMs,
      ...(settings.limits.enabled ? {} : { connectionsPerIp: Number.POSITIVE_INFINITY }),
    }
    const held = makeHeldOrders({
      threads,
      threadOf: threadOfMarket,
      gateway,
      clock: systemClock,
      perSessionMax: settings.stream.heldOrdersMax,
      deadlineMs: settings.front.deadlineMs,
    })
    heldOrders = held
    hub = makeStreamHub({
      board: () => board,
      gateway,
      orders,
      held,
      count: makeConnectionCount(data.streams, data.index),
      authenticator,
      assets,
      bearer: settings.auth.bearer,
      drawWrite,
      publish: (topic, text) => void front?.publish(topic, text),
      settings: streamSettings,
      clock: systemClock,
      log,
    })
    registerStreamMeters(registry, hub)
    registerSseMeters(registry, sse)
    return [
      placeOrder(orders),
      placeOrders(orders),
      validateOrder(orders),
      listOrders({ board, gateway }),
      listUserOrders({ board, gateway }),
      cancelOrder(gateway),
      cancelOrders({ board, gateway }),
      registerApiKey(keyDesk, systemClock.nowMs, settings.service.name),
      revokeApiKey(keyDesk, authenticator, settings.service.name),
      orderbook(board),
      ...readRoutes({ settings, board, gateway, query, store, clock: systemClock }),
      resolution({
        board,
        chainMarket: (marketId) => query('chainMarketById', { marketId }),
        assertions: (marketId) => query('assertionsOfMarket', { marketId }),
        nowMs: systemClock.nowMs,
      }),
      ...relayerOperations(relayDesk),
      relayerNonces(relayDesk, systemClock.nowMs),
      pendingClaims((filter) => query('claimsByStatus', filter)),
      failedClaims((filter) => query('claimsByStatus', filter)),
      ...priceRoutes({
        board: priceBoard,
        hub: sse,
        urls: {
          pyth: `${settings.feeds.pyth.url}/v2/updates/price/stream`,
          binance: `${settings.feeds.binance.socketUrl}/stream`,
          coinbase: settings.feeds.coinbase.socketUrl,
        },
        ageMsMax: settings.feeds.ageMsMax,
        nowMs: systemClock.nowMs,
      }),
      ...quickMarketRoutes({
        prices: priceBoard,
        board,
        list: (asset, limit, beforeSec) =>
          query('quickMarketsOfAsset', {
            asset,
            limit,
            ...(beforeSec === undefined ? {} : { beforeSec }),
          }),
        find: (id) => query('quickMarketById', { id }),
        nowMs: systemClock.nowMs,
      }),
      config(facts, systemClock),
      stream(hub, streamSettings),
      asyncapi({ title: settings.service.name, version }),
    ]
  }

  async function start(home: RemoteHome): Promise<void> {
    const pool = { queueMax: POOL_QUEUE_MAX }
    verifyPool = makePool({
      ...pool,
      entry: new URL('../../workers/verify.ts', import.meta.url),
      threads: settings.verify.threads,
      concurrentPerThread: TASKS_PER_WORKER,
      data: {
        domains: settings.chains.map(({ chainId, contracts }) => ({
          chainId,
          verifyingContract: contracts.settlement.toLowerCase() as Address,
        })),
      },
    })
    queryPool = makePool({
      ...pool,
      entry: new URL('../../workers/query.ts', import.meta.url),
      threads: settings.database.queryThreads,
      data: { databaseUrl: databaseUrlOf(settings) },
    })
    front = await startFront({
      routes: routes(),
      settings: {
        host: settings.front.host,
        port,
        sharePort: settings.front.threads > 1,
        corsOrigins: settings.front.corsOrigins,
        bodyBytesMax: BODY_BYTES_MAX,
        deadlineMs: settings.front.deadlineMs,
        requestsInFlightMax: settings.front.requestsInFlightMax,
        trustedProxies: settings.front.trustedProxies,
        connectionsMax: settings.front.connectionsMax,
        ...(settings.limits.enabled
          ? { connectionsPerIpMax: settings.front.connectionsPerIpMax }
          : {}),
      },
      services: {
        authenticate: ({ auth, authorization }) =>
          auth === 'token' || settings.auth.bearer
            ? authenticator.identify(authorization)
            : undefined,
        ...limiter,
        readiness: () => readiness(home),
        metrics: async () => AggregatorRegistry.aggregate(await home.metrics()).metrics(),
      },
      info: { title: settings.service.name, version },
      log,
      registry,
      meter,
    })
    const engines = await verifyPool.run(undefined, 'engines')
    log.info({ port: front.port }, `the front listens; signatures by ${engines}`)
  }

  async function readiness(home: RemoteHome): Promise<Readiness> {
    const all = Object.entries(await home.threads())
    const checks = all.map(([thread, { ready, why }]) => [thread, { ok: ready, why }] as const)
    const missing = threads.length - loaded.size
    const markets = {
      ok: missing === 0,
      why: missing === 0 ? '' : `${missing} threads are loading`,
    }
    if (assets.length === 0) return { ...Object.fromEntries(checks), markets }
    // Without prices everything but quick markets goes on, so the exchange counts as ready.
    const why = priceBoard.why()
    const priced = { ok: why === '', why, optional: true }
    return { ...Object.fromEntries(checks), markets, 'price sources': priced }
  }

  /** What this thread does with the link to each other thread. */
  const followers: Record<string, (peerPort: MessagePort) => void> = {
    ...Object.fromEntries(
      threads.map((_, index) => [
        marketThreadName(index),
        (peerPort: MessagePort) => followThread(index, peerPort),
      ]),
    ),
    store: followStore,
    [PRICES_THREAD]: followPrices,
    ...Object.fromEntries(
      relayers.map(({ chain, relayer }) => [
        relayerThreadName(chain.chainId),
        (peerPort: MessagePort) =>
          relayer.replace(new Channel(peerPort, channelOptions(settings), { heard: () => {} })),
      ]),
    ),
    indexer: followIndexer,
  }

  return {
    start,
    connect: (peer, peerPort) => followers[peer]?.(peerPort),
    health: () => (loaded.size === threads.length ? '' : 'some markets are not loaded'),
    metrics: () => registry.getMetricsAsJSON(),
    async drain() {
      sse.shutdown()
      await hub?.shutdown()
      await front?.close()
    },
    async stop() {
      await hub?.shutdown()
      await front?.close()
      for (const ref of [...threads, store, prices, chainNews]) ref.close()
      for (const { relayer } of relayers) relayer.close()
      await Promise.all([verifyPool.close(), queryPool.close()])
    },
  }
}
