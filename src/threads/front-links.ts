/** The links of a front: what stands behind it, and what it does with the events from there. */

import type { MessagePort } from 'node:worker_threads'
import type { AccountsFollowerProtocol } from '#actors/accounts/followers.ts'
import { ACCOUNTS_FORMS } from '#actors/accounts/forms.ts'
import type { AccountsProtocol } from '#actors/accounts/state.ts'
import type { ApiKeysProtocol, KeyFollowerProtocol } from '#actors/api-keys.ts'
import type { ClerkProtocol } from '#actors/clerk.ts'
import type { ChainFollowerProtocol } from '#actors/indexer.ts'
import { MARKET_FORMS } from '#actors/market-forms.ts'
import type { MarketFollowerProtocol, MarketThreadProtocol } from '#actors/market-thread.ts'
import type { HoldsProtocol } from '#actors/order-holds.ts'
import { readRows } from '#actors/packed-event.ts'
import type { PriceFollowerProtocol, PriceLoadProtocol } from '#actors/prices.ts'
import type { RelayerProtocol } from '#actors/relayer/state.ts'
import type { Settings } from '#config/settings-schema.ts'
import { channelOptions, relayedChains, reserves, topologyOf } from '#config/thread-data.ts'
import {
  accountsThreadName,
  marketThreadName,
  PRICES_THREAD,
  relayerThreadName,
  threadOfMarket,
} from '#config/topology.ts'
import type { MarketId } from '#domain/ids.ts'
import { isRejection } from '#domain/rejection.ts'
import type { Authenticator } from '#http/auth.ts'
import type { MarketBoard } from '#live/market-board.ts'
import type { PriceBoard } from '#live/price-board.ts'
import type { Protocol } from '#runtime/actor.ts'
import { Channel, isUnanswered } from '#runtime/channel.ts'
import { systemClock } from '#runtime/clock.ts'
import { makeRef } from '#runtime/ref.ts'
import type { HeldOrders } from '#stream/held-orders.ts'
import type { StreamHub } from '#stream/hub.ts'
import { resolutionStep } from '#stream/resolution-step.ts'

/** The pause before a thread that could not tell what it has is asked again. */
const LOAD_AGAIN_MS = 100

/** What each kind of event does here. */
type Hearers<P extends Protocol> = { [K in keyof P]: (message: P[K]['takes']) => void }

export type FrontLinks = ReturnType<typeof linkFront>

/** The stream is there once the front has started. */
export function linkFront(
  settings: Settings,
  ports: {
    readonly board: MarketBoard
    readonly priceBoard: PriceBoard
    readonly authenticator: Authenticator
    readonly hub: () => StreamHub | undefined
    readonly heldOrders: () => HeldOrders | undefined
  },
) {
  const { board, priceBoard, authenticator, hub, heldOrders } = ports
  const options = channelOptions(settings)
  const topology = topologyOf(settings)
  const threads = Array.from({ length: settings.markets.threads }, () =>
    makeRef<MarketThreadProtocol & HoldsProtocol>(),
  )
  const store = makeRef<ApiKeysProtocol & ClerkProtocol>()
  const relayers = relayedChains(settings).map((chain) => ({
    chain,
    relayer: makeRef<RelayerProtocol>(),
  }))
  const accounts = Array.from({ length: reserves(settings) ? settings.risk.threads : 0 }, () =>
    makeRef<AccountsProtocol>(),
  )
  const prices = makeRef<PriceLoadProtocol>()
  const chainEvents = makeRef<ChainFollowerProtocol>()
  /** The market threads whose markets are on the board as they are now. */
  const loaded = new Set<number>()
  /** The market threads that have told their markets at least once. */
  const known = new Set<number>()

  function followThread(index: number, port: MessagePort): void {
    const hearers: Hearers<MarketFollowerProtocol> = {
      MarketEvents({ rows }) {
        if (!board.follow(readRows(rows))) void load(index)
      },
      MarketsReloaded({ views }) {
        for (const view of views) board.load(view)
      },
      MarketsGone: ({ marketIds }) => board.forget(marketIds),
    }
    threads[index]?.replace(
      new Channel(
        port,
        { ...options, forms: MARKET_FORMS },
        {
          heard: (type, message) => hearers[type as keyof MarketFollowerProtocol](message as never),
          closed: () => loaded.delete(index),
        },
      ),
    )
    heldOrders()?.repeat(index)
    void load(index)
  }

  async function load(index: number, after?: MarketId, there = new Set<MarketId>()): Promise<void> {
    const ref = threads[index]
    const answer = await ref?.ask('Markets', after === undefined ? {} : { after })
    if (answer === undefined || isUnanswered(answer) || isRejection(answer)) {
      // Too busy, or its log is away. When the thread is gone, its next one is asked instead.
      if (ref?.isOpen === true) setTimeout(() => void load(index), LOAD_AGAIN_MS).unref()
      return
    }
    for (const view of answer.views) board.load(view)
    // What happens to a market that is not here yet is in the part that it will come with.
    for (const { market } of answer.views) there.add(market.id)
    if (answer.more) return load(index, answer.views.at(-1)?.market.id, there)
    forgetOthers(index, there)
    loaded.add(index)
    known.add(index)
  }

  /** What a thread does not have any more went while this front did not hear it. */
  function forgetOthers(index: number, there: ReadonlySet<MarketId>): void {
    const gone: MarketId[] = []
    for (const [marketId, { closed }] of board.markets) {
      if (closed !== 'resolved' || there.has(marketId)) continue
      if (threadOfMarket(marketId, topology) === index) gone.push(marketId)
    }
    board.forget(gone)
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
        closed: () => authenticator.unheard(),
      }),
    )
    // What the store before this one said last may not have arrived.
    authenticator.unheard()
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
  function followIndexer(port: MessagePort): void {
    const hearers: Hearers<ChainFollowerProtocol> = {
      ChainAdvanced({ events }) {
        for (const event of events) {
          const step = resolutionStep(event)
          if (step === undefined) continue
          hub()?.marketHappened(step.marketId, step.event, step.facts, event.atSec * 1_000)
        }
      },
      ChainRewound({ to, reverted }) {
        const facts = { blockNumber: to.number }
        for (const id of reverted) hub()?.marketHappened(id, 'reverted', facts, to.atSec * 1_000)
      },
    }
    chainEvents.replace(
      new Channel<ChainFollowerProtocol>(port, options, {
        heard: (type, message) => hearers[type as keyof ChainFollowerProtocol](message as never),
      }),
    )
  }

  function followAccounts(index: number, port: MessagePort): void {
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
        },
      ),
    )
  }

  /** What is done with the link to each other thread. */
  const followers = new Map<string, (port: MessagePort) => void>([
    ['store', followStore],
    ['indexer', followIndexer],
    [PRICES_THREAD, followPrices],
  ])
  for (const index of threads.keys()) {
    followers.set(marketThreadName(index), (port) => followThread(index, port))
  }
  for (const index of accounts.keys()) {
    followers.set(accountsThreadName(index), (port) => followAccounts(index, port))
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
    /** Whether every market thread has told its markets at least once. */
    isWhole: () => known.size === threads.length,
    /** How many market threads have markets that are not on the board as they are now. */
    missing: () => threads.length - loaded.size,
    connect(peer: string, port: MessagePort): void {
      followers.get(peer)?.(port)
    },
    close(): void {
      for (const ref of [...threads, ...accounts, store, prices, chainEvents]) ref.close()
      for (const { relayer } of relayers) relayer.close()
    },
  }
}
