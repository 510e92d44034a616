/**
 * The thread of prices and quick markets: the providers' feeds, the actor that decides what is a price,
 * and the actor that opens markets on it. Both keep what they know in the database.
 */

import type { MessagePort } from 'node:worker_threads'
import { Counter, Gauge, Registry } from 'prom-client'
import type { ClerkProtocol } from '#actors/clerk.ts'
import type { MarketThreadProtocol } from '#actors/market-thread.ts'
import {
  assetPricesOf,
  newPrices,
  type PriceFollowerProtocol,
  type PricesEvent,
  type PricesProtocol,
  type PricesState,
  prices,
  whyUnpriced,
} from '#actors/prices.ts'
import {
  activeOf,
  newQuickMarkets,
  type QuickMarketsEvent,
  type QuickMarketsProtocol,
  type QuickMarketsState,
  quickMarkets,
} from '#actors/quick-markets/quick-markets.ts'
import { accountsOf } from '#chain/accounts.ts'
import { makeChainClient } from '#chain/clients.ts'
import { quickDescription, quickQuestion } from '#chain/market-factory.ts'
import { predictQuickMarket } from '#chain/quick-market-id.ts'
import { makeQuickMarketLane, type QuickMarketLane } from '#chain/quick-market-lane.ts'
import { makeLog } from '#config/logging.ts'
import {
  channelOptions,
  databaseUrlOf,
  quickChain,
  type ThreadData,
  topologyOf,
} from '#config/thread-data.ts'
import { marketThreadName, partitionOf, threadOf } from '#config/topology.ts'
import { PRICE_SOURCES, type PriceSource } from '#domain/asset-price.ts'
import { Fault } from '#domain/fault.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import { QUICK_MARKETS_UNFINISHED_MAX } from '#domain/limits.ts'
import type { Market } from '#domain/market.ts'
import { endSecOf, type QuickMarket } from '#domain/quick-market.ts'
import { isRejection } from '#domain/rejection.ts'
import { makeBinance } from '#feeds/binance.ts'
import { makeCoinbase } from '#feeds/coinbase.ts'
import { makeFailover } from '#feeds/failover.ts'
import type { Feed, FeedParts } from '#feeds/feed.ts'
import { makePyth } from '#feeds/pyth.ts'
import { Channel, isUnanswered, type Unanswered } from '#runtime/channel.ts'
import { systemClock } from '#runtime/clock.ts'
import { makeRef } from '#runtime/ref.ts'
import { type Served, serve } from '#runtime/serve.ts'
import type { ThreadParts } from '#runtime/thread.ts'
import { closeDatabase, type Database, openDatabase } from '#store/database.ts'
import { makeJournal } from '#store/journal.ts'
import { answerQuery, askQuery, type Queries, type QueryName } from '#store/queries.ts'
import { askWrite } from '#store/writes.ts'

const TICK_MS = 200
const WRITE_MS = 2_000
const MAILBOX_MAX = 100_000
const BATCH_MAX = 1_000
const AHEAD_MS_MAX = 2_000
/** How long it takes until a jump of the same height again is nothing unusual. */
const DRIFT_MS = 600_000
const PYTH_CONFIDENCE_MAX = 0.01
const IDLE_POLL_MS = 5_000
const MARKS_READ_MAX = 10_000
const MARKS_READ_SEC = 86_400
const RETRY_MS = 1_000
const RETRY_MS_MAX = 60_000
/** What a short interval leaves of these is a share of it. */
const GAP_MS = 5_000
const PATIENCE_MS = 1_500
const GRACE_MS = 60_000
const REMAINING_MS_MIN = 60_000
const REPORT_AFTER_MS = 2_000
/** The same trouble of a provider is told once in so long. */
const TELL_AGAIN_MS = 600_000

export function pricesThread(data: ThreadData): ThreadParts {
  const { name, settings, isTerminal } = data
  const { feeds: rules, quick } = settings
  const log = makeLog(settings.log, name, isTerminal)
  const registry = new Registry()
  registry.setDefaultLabels({ thread: name })
  const registers = [registry]
  const topology = topologyOf(settings)
  const clock = systemClock
  const chain = quickChain(settings)

  const observed = new Counter({
    name: 'sibyl_price_observations_total',
    help: 'Reports of price providers, by what became of them',
    labelNames: ['source', 'result'],
    registers,
  })
  const troubles = new Counter({
    name: 'sibyl_price_troubles_total',
    help: 'What went wrong with a price provider, by kind',
    labelNames: ['source', 'kind'],
    registers,
  })
  const published = new Counter({
    name: 'sibyl_prices_total',
    help: 'Prices that left, by asset and who spoke',
    labelNames: ['asset', 'source'],
    registers,
  })
  const speaking = new Gauge({
    name: 'sibyl_price_speaker',
    help: '1 for the provider that speaks for an asset',
    labelNames: ['asset', 'source'],
    registers,
  })
  const quickEvents = new Counter({
    name: 'sibyl_quick_markets_total',
    help: 'Quick markets that were opened and resolved',
    labelNames: ['asset', 'event'],
    registers,
  })
  new Gauge({
    name: 'sibyl_price_age_seconds',
    help: 'How old the price of an asset is, by its provider’s clock',
    labelNames: ['asset'],
    registers,
    collect() {
      for (const { asset, latest } of priceState?.assets.values() ?? []) {
        if (latest !== undefined) this.set({ asset }, (clock.nowMs() - latest.atMs) / 1_000)
      }
    },
  })
  new Gauge({
    name: 'sibyl_price_provider_open',
    help: '1 while a provider pushes prices',
    labelNames: ['source'],
    registers,
    collect() {
      for (const feed of feeds) this.set({ source: feed.source }, feed.isOpen() ? 1 : 0)
    },
  })
  new Gauge({
    name: 'sibyl_quick_markets_unfinished',
    help: 'Quick markets whose outcome is not on chain yet',
    registers,
    collect() {
      this.set(quickState?.rows.size ?? 0)
    },
  })

  const store = makeRef<ClerkProtocol>()
  const markets = Array.from({ length: topology.marketThreads }, () =>
    makeRef<MarketThreadProtocol>(),
  )
  const fronts = new Set<Channel<PriceFollowerProtocol>>()
  let database: Database
  let feeds: Feed[] = []
  let lane: QuickMarketLane | undefined
  let priceState: PricesState | undefined
  let quickState: QuickMarketsState | undefined
  let priced: Served
  let quickServed: Served | undefined
  let ticking: NodeJS.Timeout
  let shownTrouble = ''
  const toldAtMs = new Map<string, number>()
  /** Assets that somebody has spoken for; silence is worth a warning from then on. */
  const spoken = new Set<string>()

  const query: <Name extends QueryName>(
    name: Name,
    args: Queries[Name]['takes'],
  ) => Promise<Queries[Name]['answers']> = (query, args) =>
    askQuery({ run: (task) => answerQuery(async () => database, task) }, query, args)

  /** Only those that know an address and at least one asset. */
  function makeFeeds(): Feed[] {
    const partsOf = (source: PriceSource): FeedParts => ({
      clock,
      fetch: (url, init) => fetch(url, init),
      openSocket: (url) => new WebSocket(url),
      heard: (observation) => priced.hear('Observed', { observation }, 0, undefined),
      troubled(kind, detail) {
        troubles.inc({ source, kind })
        const about = { source, kind, detail }
        const nowMs = clock.nowMs()
        const isNews = nowMs - (toldAtMs.get(`${source} ${kind}`) ?? 0) > TELL_AGAIN_MS
        // What an operator can do something about: a key, an address, a provider that changed.
        if (!isNews || kind === 'closed' || kind === 'silent' || kind === 'away') {
          log.debug(about, 'a price provider has trouble')
          return
        }
        toldAtMs.set(`${source} ${kind}`, nowMs)
        log.warn(about, 'a price provider has trouble')
      },
    })
    const known = <T>(names: Readonly<Record<string, T>>): Record<string, T> =>
      Object.fromEntries(Object.entries(names).filter(([asset]) => rules.assets.includes(asset)))
    const { pyth, binance, coinbase } = rules
    const ids = known(pyth.ids)
    const symbols = known(binance.symbols)
    const products = known(coinbase.products)
    const has = (names: object): boolean => Object.keys(names).length > 0
    const made: Feed[] = []
    if (pyth.url !== '' && has(ids)) {
      const options = { ...pyth, ids, confidenceMax: PYTH_CONFIDENCE_MAX }
      made.push(makePyth(options, partsOf('pyth')))
    }
    if (binance.url !== '' && binance.socketUrl !== '' && has(symbols)) {
      made.push(makeBinance({ ...binance, symbols }, partsOf('binance')))
    }
    if (coinbase.url !== '' && coinbase.socketUrl !== '' && has(products)) {
      made.push(makeCoinbase({ ...coinbase, products }, partsOf('coinbase')))
    }
    return made
  }

  async function startPrices(): Promise<void> {
    // However old: the last one is what the first of a provider that is alone is compared with.
    const recorded = await Promise.all(
      rules.assets.map((asset) => query('pricesSince', { asset, sinceSec: 0, limit: 2_000 })),
    )
    const order = PRICE_SOURCES.filter((source) => rules[source].url !== '')
    const failover = makeFailover({
      order,
      ageMsMax: rules.ageMsMax,
      aheadMsMax: AHEAD_MS_MAX,
      recoverMs: rules.recoverMs,
      deviationMax: rules.deviationBps / 10_000,
      jumpMax: rules.jumpBps / 10_000,
      driftMs: DRIFT_MS,
    })
    const state = newPrices(
      { assets: rules.assets, publishMs: rules.publishMs, writeMs: WRITE_MS },
      { failover, write: (batch) => askWrite(store, 'recordPrices', batch) },
      recorded.flat(),
    )
    priceState = state
    priced = serve<PricesState, PricesProtocol, PricesEvent>({
      behaviour: prices,
      select: () => ({ state }),
      clock,
      mailboxMax: MAILBOX_MAX,
      batchMax: BATCH_MAX,
      full: undefined,
      say: (events) => events.forEach(saidPrice),
    })
  }

  function saidPrice(event: PricesEvent): void {
    switch (event.type) {
      case 'PricePublished': {
        const { asset, source } = event.price
        published.inc({ asset, source })
        for (const front of fronts) front.tell('Priced', { price: event.price })
        return
      }
      case 'SpeakerChanged': {
        const { asset, source, why } = event
        for (const each of PRICE_SOURCES) {
          speaking.set({ asset, source: each }, each === source ? 1 : 0)
        }
        if (source !== undefined) {
          spoken.add(asset)
          log.info({ asset, source }, 'a provider speaks for an asset')
        } else if (spoken.has(asset)) log.warn({ asset, why }, 'nobody speaks for an asset')
        for (const front of fronts) front.tell('SpeakerChanged', { asset, source, why })
        quickServed?.hear('SpeakerChanged', { asset, source }, 0, undefined)
        return
      }
      case 'ObservationAccepted': {
        const { observation } = event
        observed.inc({ source: observation.source, result: 'accepted' })
        quickServed?.hear('Observed', { observation }, 0, undefined)
        return
      }
      case 'ObservationRefused':
        observed.inc({ source: event.source, result: event.why })
    }
  }

  async function startQuickMarkets(on: NonNullable<typeof chain>): Promise<void> {
    const { chainId, rpcUrls, contracts } = on
    const address = (text: string) => text.toLowerCase() as Address
    const factory = address(contracts.marketFactory)
    const client = makeChainClient({
      chainId,
      rpcUrls,
      onError: ({ host, why }) => log.debug({ host, why }, 'a request to the chain failed'),
    })
    const [account] = accountsOf([settings.keys.operator])
    if (account === undefined) return
    const maker = address(account.address)
    const ownLane = makeQuickMarketLane({
      client,
      contracts: {
        marketFactory: factory,
        conditionalTokens: address(contracts.conditionalTokens),
        stablecoin: address(contracts.stablecoin),
      },
      account,
      journal: makeJournal(store, { run: (task) => answerQuery(async () => database, task) }),
      clock,
      policy: { confirmations: on.confirmations },
      pollMs: quick.pollMs,
      idlePollMs: IDLE_POLL_MS,
      onTrouble: (where, error) =>
        log.debug({ where, err: error }, 'the operator’s lane has trouble'),
    })
    lane = ownLane
    const intervalMs = quick.intervalSeconds * 1_000
    const share = (ms: number, of: number): number => Math.min(ms, Math.floor(intervalMs / of))
    const nowSec = Math.floor(clock.nowMs() / 1_000)
    const state = newQuickMarkets(
      {
        assets: rules.assets,
        sources: PRICE_SOURCES.filter((source) => rules[source].url !== ''),
        intervalSec: quick.intervalSeconds,
        chainId,
        withinMs: quick.withinSeconds * 1_000,
        gapMs: GAP_MS,
        patienceMs: share(PATIENCE_MS, 2),
        graceMs: share(GRACE_MS, 3),
        ownMs: quick.fallbackSeconds * 1_000,
        reportAfterMs: REPORT_AFTER_MS,
        remainingMsMin: share(REMAINING_MS_MIN, 4),
        deviationMax: rules.deviationBps / 10_000,
        retryMs: RETRY_MS,
        retryMsMax: RETRY_MS_MAX,
      },
      {
        predict: (terms) => predictQuickMarket(factory, terms),
        priceAt(source, asset, atMs, withinMs) {
          const feed = feeds.find((each) => each.source === source)
          return feed?.priceAt(asset, atMs, withinMs) ?? Promise.resolve(undefined)
        },
        record: (terms) => askWrite(store, 'openQuickMarket', terms),
        decide: (decided) => askWrite(store, 'resolveQuickMarket', decided),
        note: (noted) => askWrite(store, 'noteQuickMarket', noted),
        recordMarks: (batch) => askWrite(store, 'recordMarks', batch),
        place: async (quickMarket) =>
          answered(
            await marketOf(quickMarket.marketId).ask('OpenMarket', {
              market: marketFor(quickMarket, maker),
            }),
          ),
        close: async ({ marketId }) =>
          answered(await marketOf(marketId).ask('CloseMarket', { marketId, reason: 'resolved' })),
        create: ownLane.create,
        report: ownLane.report,
      },
      {
        unfinished: (
          await query('unfinishedQuickMarkets', { limit: QUICK_MARKETS_UNFINISHED_MAX })
        ).filter((one) => one.chainId === chainId),
        marks: await query('marksSince', {
          sinceSec: nowSec - MARKS_READ_SEC,
          limit: MARKS_READ_MAX,
        }),
      },
    )
    quickState = state
    quickServed = serve<QuickMarketsState, QuickMarketsProtocol, QuickMarketsEvent>({
      behaviour: quickMarkets,
      select: () => ({ state }),
      clock,
      mailboxMax: MAILBOX_MAX,
      batchMax: BATCH_MAX,
      full: undefined,
      say: (events) => events.forEach(saidQuick),
    })
    ownLane.start()
  }

  function saidQuick({ type, quickMarket, atMs }: QuickMarketsEvent): void {
    const { id, asset, marketId, strike, resolution } = quickMarket
    quickEvents.inc({ asset, event: type === 'QuickMarketOpened' ? 'opened' : 'resolved' })
    log.info({ id, asset, marketId, strike: strike.price, outcome: resolution?.outcome }, type)
    for (const front of fronts) front.tell(type, { quickMarket, atMs })
  }

  const marketOf = (marketId: MarketId) =>
    markets[threadOf(partitionOf(marketId, topology), topology)]!

  /** What a market thread did not do is a fault, and tried again. */
  function answered(answer: unknown | Unanswered): void {
    if (isUnanswered(answer)) {
      throw new Fault('MARKET_AWAY', `the market thread is ${answer.unanswered}`, {
        retryable: true,
      })
    }
    if (isRejection(answer)) throw new Fault(answer.rejected, answer.rejected, { retryable: true })
  }

  /** The market as its contract words it. */
  function marketFor(quickMarket: QuickMarket, maker: Address): Market {
    const { marketId, contractAddress, chainId, asset, startSec, strike } = quickMarket
    const endSec = endSecOf(quickMarket)
    const { source } = strike
    return {
      id: marketId,
      question: quickQuestion(asset),
      description: quickDescription({
        startPrice: BigInt(strike.price),
        startSec,
        endSec,
        source,
      }),
      category: 'general',
      contractAddress,
      maker,
      expiration: endSec,
      chainId,
      createdAt: Math.floor(quickMarket.createdAtMs / 1_000),
      quick: true,
    }
  }

  function tick(): void {
    priced.hear('Tick', {}, 0, undefined)
    quickServed?.hear('Tick', {}, 0, undefined)
    const trouble = quickState?.trouble ?? ''
    if (trouble !== shownTrouble && trouble !== '')
      log.warn({ why: trouble }, 'a quick market waits')
    shownTrouble = trouble
  }

  function followFront(port: MessagePort): void {
    const front: Channel<PriceFollowerProtocol> = new Channel<PriceFollowerProtocol>(
      port,
      channelOptions(settings),
      {
        heard(type, _message, replyTo) {
          if (type !== 'Load' || priceState === undefined) return
          const active = quickState === undefined ? [] : activeOf(quickState, clock.nowMs())
          front.reply(replyTo, { assets: assetPricesOf(priceState), active })
        },
        closed: () => fronts.delete(front),
      },
    )
    fronts.add(front)
  }

  return {
    async start() {
      database = await openDatabase(databaseUrlOf(settings), { readOnly: true })
      await startPrices()
      if (chain !== undefined) await startQuickMarkets(chain)
      feeds = makeFeeds()
      for (const feed of feeds) feed.start()
      ticking = setInterval(tick, TICK_MS)
      const sources = feeds.map(({ source }) => source)
      log.info({ sources, assets: rules.assets, quick: chain !== undefined }, 'prices are followed')
    },
    connect(peer, port) {
      const options = channelOptions(settings)
      const deaf = { heard: () => {} }
      const market = markets[markets.findIndex((_, thread) => marketThreadName(thread) === peer)]
      if (peer === 'store') store.replace(new Channel(port, options, deaf))
      else if (market !== undefined) market.replace(new Channel(port, options, deaf))
      else followFront(port)
    },
    // Providers that are away make no thread restart; `whyUnpriced` is told to the fronts.
    health: () => (priceState === undefined ? 'starting' : ''),
    metrics: () => registry.getMetricsAsJSON(),
    async drain() {
      for (const feed of feeds) feed.stop()
      clearInterval(ticking)
    },
    async stop() {
      for (const feed of feeds) feed.stop()
      clearInterval(ticking)
      lane?.stop()
      for (const ref of [store, ...markets]) ref.close()
      for (const front of fronts) front.close()
      if (priceState !== undefined) log.info({ why: whyUnpriced(priceState) }, 'prices end')
      await closeDatabase(database)
    },
  }
}
