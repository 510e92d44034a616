/** The links of a front: references to other threads, and handlers for their events. */

import type { MessagePort } from 'node:worker_threads'
import type { Log } from '#config/logging.ts'
import type { Settings } from '#config/settings-schema.ts'
import { channelOptions, isNode, relayedChains, reserves, topologyOf } from '#config/thread-data.ts'
import {
  accountsThreadName,
  marketThreadName,
  PRICES_THREAD,
  partitionOf,
  relayerThreadName,
  threadOf,
  threadOfMarket,
} from '#config/topology.ts'
import type { MarketId } from '#domain/ids.ts'
import { CHANNEL_IN_FLIGHT_MAX } from '#domain/limits.ts'
import type { Authenticator } from '#http/auth.ts'
import { makeBoardLoad } from '#live/board-load.ts'
import type { ContractSignatures } from '#live/contract-signatures.ts'
import type { Delegates } from '#live/delegates.ts'
import { makeHandOver } from '#live/hand-over.ts'
import type { MarketBoard } from '#live/market-board.ts'
import type { MarketEvents } from '#live/market-events.ts'
import { CONFIRM_EVERY_MS, makeOwnerWatch } from '#live/owner-watch.ts'
import { makePartitionUse, type PartitionUse } from '#live/partition-use.ts'
import { type MovingProtocol, makePatientRef } from '#live/patient-ref.ts'
import type { PriceBoard } from '#live/price-board.ts'
import type { WithdrawnOrders } from '#live/withdrawn-orders.ts'
import { readRows } from '#log/packed-event.ts'
import type { AccountsFollowerProtocol, AccountsRequests } from '#protocol/accounts.ts'
import { ACCOUNTS_FORMS } from '#protocol/accounts-forms.ts'
import type { ChainFollowerProtocol } from '#protocol/indexer.ts'
import type {
  DozeProtocol,
  MarketFollowerProtocol,
  SessionsProtocol,
} from '#protocol/market-followers.ts'
import { MARKET_FORMS } from '#protocol/market-forms.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import type { PriceFollowerProtocol, PriceLoadProtocol } from '#protocol/prices.ts'
import type { ApiKeysRequests, KeyFollowerProtocol, WriteRequests } from '#protocol/projector.ts'
import type { RelayerRequests } from '#protocol/relayer.ts'
import type { Protocol } from '#runtime/actor.ts'
import { Channel, isUnanswered } from '#runtime/channel.ts'
import { monotonicMs, systemClock } from '#runtime/clock.ts'
import { makeRef } from '#runtime/ref.ts'
import type { LinkMeters } from '#services/kit/link-metrics.ts'
import type { HeldSessions } from '#stream/held-sessions.ts'
import type { StreamHub } from '#stream/hub.ts'
import { resolutionStep } from '#stream/resolution-step.ts'

/** Pause before a failed load is retried. */
const LOAD_AGAIN_MS = 100

/** Messages of a market thread. */
type FollowedProtocol = MarketFollowerProtocol & MovingProtocol

/** One handler per kind of event. */
type Hearers<P extends Protocol> = { [K in keyof P]: (message: P[K]['takes']) => void }

export type FrontLinks = ReturnType<typeof linkFront>

/** The stream exists once the front has started. */
export function linkFront(
  settings: Settings,
  ports: {
    readonly log: Pick<Log, 'warn'>
    readonly meters: LinkMeters
    readonly board: MarketBoard
    readonly priceBoard: PriceBoard
    readonly authenticator: Authenticator
    readonly hub: () => StreamHub | undefined
    readonly heldSessions: () => HeldSessions | undefined
    readonly withdrawn: () => WithdrawnOrders | undefined
    readonly delegates: () => Delegates | undefined
    readonly contracts: () => ContractSignatures | undefined
    readonly marketEvents: () => MarketEvents | undefined
    /** Reports that idle markets are active now. */
    readonly woken: () => void
  },
) {
  const { board, priceBoard, authenticator, hub, heldSessions, meters } = ports
  const options = channelOptions(settings)
  const topology = topologyOf(settings)
  const plain = Array.from({ length: settings.markets.threads }, () =>
    makeRef<MarketThreadProtocol & SessionsProtocol & DozeProtocol>(),
  )
  const patience = { waitingMax: CHANNEL_IN_FLIGHT_MAX, deadlineMs: settings.front.deadlineMs }
  /** In a cluster, a market's thread may be moving to another machine. */
  const patient = isNode(settings) ? plain.map((ref) => makePatientRef(ref, patience)) : []
  const threads = plain.map((ref, index) => patient[index] ?? ref)
  const store = makeRef<ApiKeysRequests & WriteRequests>()
  const relayers = relayedChains(settings).map((chain) => ({
    chain,
    relayer: makeRef<RelayerRequests>(),
  }))
  const accounts = Array.from({ length: reserves(settings) ? settings.risk.threads : 0 }, () => {
    const ref = makeRef<AccountsRequests>()
    return isNode(settings) ? makePatientRef(ref, patience) : ref
  })
  const prices = makeRef<PriceLoadProtocol>()
  const chainEvents = makeRef<ChainFollowerProtocol>()
  const loads = plain.map((thread, index) =>
    makeBoardLoad(board, thread, (marketId) => threadOfMarket(marketId, topology) === index, {
      woken: ports.woken,
    }),
  )
  /** A log in a database server may be taken over; one in files belongs to this process. */
  const watches =
    settings.eventLog.url === '' ? [] : plain.map((thread) => makeOwnerWatch(thread, monotonicMs))
  const confirming = setInterval(() => {
    for (const watch of watches) void watch.ask()
  }, CONFIRM_EVERY_MS)
  confirming.unref()
  const isConfirmed = (index: number): boolean => watches[index]?.isConfirmed() ?? true
  const isCurrent = (index: number): boolean =>
    loads[index]?.isLoaded() === true && isConfirmed(index)
  const handOvers = plain.map((_, index) =>
    makeHandOver({ deadlineMs: settings.front.deadlineMs, nowMs: monotonicMs }, () =>
      isCurrent(index),
    ),
  )
  const { dozeMs } = settings.cluster
  /** In a cluster, a front follows only partitions that its clients use. */
  const use = isNode(settings) && dozeMs > 0 ? usePartitions() : undefined

  function usePartitions(): PartitionUse {
    const { partitions } = topology
    return makePartitionUse({
      ...{ dozeMs, nowMs: monotonicMs },
      loads: Array.from({ length: partitions }, (_, each) => loads[threadOf(each, topology)]!),
      partitionOf: (marketId) => partitionOf(marketId, topology),
      isShown: (marketId) => board.markets.has(marketId),
      watched: () => hub()?.watched() ?? [],
    })
  }

  /** Loads lost events of a market or its partition again; undefined if nothing is missing. */
  function heardAll(marketId: MarketId): Promise<void> | undefined {
    return use?.need(marketId) ?? loads[threadOfMarket(marketId, topology)]?.reloaded()
  }

  /** Handles lost messages of this peer, which were not read in time. */
  function lost(peer: string): void {
    meters.reloaded(peer)
    ports.log.warn(
      { peer },
      `messages of ${peer} were dropped because this thread was too slow; its data is reloaded`,
    )
  }

  const dropped = (peer: string) => () => meters.dropped(peer)

  function followThread(peer: string, index: number, port: MessagePort): void {
    const load = loads[index]
    const thread = threads[index]
    if (load === undefined || thread === undefined) return
    const hearers: Hearers<FollowedProtocol> = {
      MarketEvents: ({ rows }) => load.follow(readRows(rows)),
      MarketFacts: ({ events }) => load.followFacts(events),
      MarketsReloaded({ views }) {
        for (const view of views) board.load(view)
      },
      MarketsGone: ({ marketIds }) => load.forget(marketIds),
      Moving() {
        patient[index]?.moves()
        handOvers[index]?.began()
      },
    }
    thread.replace(
      new Channel(
        port,
        { ...options, forms: MARKET_FORMS },
        {
          heard: (type, message) => hearers[type as keyof FollowedProtocol](message as never),
          closed() {
            watches[index]?.changed()
            load.closed()
          },
          lost() {
            lost(peer)
            load.lost()
          },
          missed: () => void heldSessions()?.claim(index),
          dropped: dropped(peer),
        },
      ),
    )
    void heldSessions()?.claim(index)
    watches[index]?.changed()
    void watches[index]?.ask()
    load.begin()
    handOvers[index]?.linked()
  }

  /** The store may have revoked keys while this front was not linked. */
  function unheard(): void {
    // First the cache of keys, then the open sessions.
    authenticator.unheard()
    hub()?.unheard()
  }

  function followStore(port: MessagePort): void {
    const hearers: Hearers<KeyFollowerProtocol> = {
      KeysRevoked({ ids }) {
        authenticator.revoked(ids)
        hub()?.revoked(ids)
      },
      KeyRegistered: ({ key }) => authenticator.registered(key),
    }
    store.replace(
      new Channel(port, options, {
        heard: (type, message) => hearers[type as keyof KeyFollowerProtocol](message as never),
        closed: unheard,
        lost() {
          lost('store')
          unheard()
        },
      }),
    )
    // The last messages of the previous store may be lost.
    unheard()
  }

  function followPrices(port: MessagePort): void {
    const hearers: Hearers<PriceFollowerProtocol> = {
      Priced: ({ price }) => priceBoard.priced(price),
      SpeakerChanged: ({ asset, source, why }) => priceBoard.speakerChanged(asset, source, why),
      QuickMarketOpened: ({ quickMarket, atMs }) => priceBoard.quickMarketOpened(quickMarket, atMs),
      QuickMarketResolved: ({ quickMarket, atMs }) =>
        priceBoard.quickMarketResolved(quickMarket, atMs),
    }
    prices.replace(
      new Channel(port, options, {
        heard: (type, message) => hearers[type as keyof PriceFollowerProtocol](message as never),
        closed: () => priceBoard.lost(),
        lost() {
          lost(PRICES_THREAD)
          void loadPrices().then(() => hub()?.missed(['price', 'quick-market']))
        },
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

  /** Publishes resolution steps from the chain on the stream. */
  function followIndexer(port: MessagePort): void {
    const hearers: Hearers<ChainFollowerProtocol> = {
      ChainAdvanced({ chainId, events }) {
        ports.withdrawn()?.followed(chainId, events)
        ports.delegates()?.followed(chainId, events)
        ports.contracts()?.advanced(chainId)
        ports.marketEvents()?.followed(events)
        for (const event of events) {
          if (event.type === 'EventMarketCreated') {
            hub()?.joinedEvent({ chainId, slug: event.info.slug }, event.marketId)
          }
          const step = resolutionStep(event)
          if (step === undefined) continue
          hub()?.marketHappened(step.marketId, step.event, step.facts, event.atSec * 1_000)
        }
      },
      ChainRewound({ chainId, to, reverted }) {
        ports.withdrawn()?.reload(chainId)
        ports.delegates()?.reload(chainId)
        ports.contracts()?.advanced(chainId)
        ports.marketEvents()?.reset()
        void hub()?.eventsMissed()
        const facts = { blockNumber: to.number }
        for (const id of reverted) hub()?.marketHappened(id, 'reverted', facts, to.atSec * 1_000)
      },
    }
    chainEvents.replace(
      new Channel<ChainFollowerProtocol>(port, options, {
        heard: (type, message) => hearers[type as keyof ChainFollowerProtocol](message as never),
        lost() {
          lost('indexer')
          ports.withdrawn()?.reload()
          ports.delegates()?.reload()
          ports.marketEvents()?.reset()
          void hub()?.eventsMissed()
          hub()?.missed(['market', 'markets'])
        },
      }),
    )
    // The last messages of the previous indexer may be lost.
    ports.withdrawn()?.reload()
    ports.delegates()?.reload()
    ports.marketEvents()?.reset()
    void hub()?.eventsMissed()
  }

  function followAccounts(peer: string, index: number, port: MessagePort): void {
    const hearers: Hearers<AccountsFollowerProtocol> = {
      FundsChanged({ accounts: changed }) {
        for (const { trader, chainId } of changed) hub()?.fundsChanged(trader, chainId)
      },
    }
    accounts[index]?.replace(
      new Channel(
        port,
        { ...options, forms: ACCOUNTS_FORMS },
        {
          heard: (type, message) =>
            hearers[type as keyof AccountsFollowerProtocol](message as never),
          lost() {
            lost(peer)
            hub()?.missed(['funds'])
          },
          // A promise that is not released ends on its own.
          dropped: dropped(peer),
        },
      ),
    )
  }

  /** Handlers for the links to other threads, by name. */
  const followers = new Map<string, (port: MessagePort) => void>([
    ['store', followStore],
    ['indexer', followIndexer],
    [PRICES_THREAD, followPrices],
  ])
  for (const index of threads.keys()) {
    const peer = marketThreadName(index)
    followers.set(peer, (port) => followThread(peer, index, port))
  }
  for (const index of accounts.keys()) {
    const peer = accountsThreadName(index)
    followers.set(peer, (port) => followAccounts(peer, index, port))
  }
  for (const { chain, relayer } of relayers) {
    followers.set(relayerThreadName(chain.chainId), (port) =>
      relayer.replace(new Channel(port, options, { heard() {} })),
    )
  }

  return {
    threads,
    store,
    relayers,
    accounts,
    /** Returns whether every market thread was loaded at least once. */
    isWhole: () => loads.every(({ isKnown }) => isKnown()),
    /**
     * Returns whether the thread of this market, or every market thread, is loaded and confirmed as the owner of its
     * log.
     */
    isCurrent: (marketId?: MarketId) =>
      marketId === undefined
        ? loads.every((_, index) => isCurrent(index))
        : isCurrent(threadOfMarket(marketId, topology)),
    /**
     * Returns why the board may be stale or incomplete; empty if it is not. Threads that are handed over do not count:
     * their orders wait, and reads of their markets are marked as stale.
     */
    why(): string {
      const settled = [...loads.keys()].filter((index) => handOvers[index]?.isUnderWay() !== true)
      const loading = settled.filter((index) => loads[index]?.isLoaded() !== true).length
      if (loading > 0) return `${loading} threads are loading`
      const unconfirmed = settled.filter((index) => !isConfirmed(index)).length
      if (unconfirmed === 0) return ''
      return `${unconfirmed} market threads have not confirmed for a second that they own their log`
    },
    /** Undefined if every partition is always followed. */
    use,
    /** Returns the number of followed partitions. */
    followed: () => loads.reduce((left, load) => left - load.dozing(), topology.partitions),
    heardAll,
    /** Resolves when a market thread was loaded for the first time; undefined after that. */
    known: (index: number) => loads[index]?.untilKnown(),
    connect(peer: string, port: MessagePort): void {
      followers.get(peer)?.(port)
    },
    close(): void {
      clearInterval(confirming)
      for (const ref of [...threads, ...accounts, store, prices, chainEvents]) ref.close()
      for (const { relayer } of relayers) relayer.close()
    },
  }
}
