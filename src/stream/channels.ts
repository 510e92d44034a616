/**
 * Turns events of the board and of other threads into messages of the topics that have followers, and keeps every chain
 * consistent, also of topics without followers. A message is written once and passed to `publish` once, whatever the
 * number of readers. This module knows subscriptions as members of topics, and nothing about sockets.
 */

import { checksumAddress } from '#domain/checksum-address.ts'
import type { Address, MarketId, Sequence } from '#domain/ids.ts'
import { SNAPSHOTS_KEPT_BYTES_MAX } from '#domain/limits.ts'
import type { MarketEvent, OrdersMatched, TradeOutcome } from '#domain/market-event.ts'
import { tradesOf } from '#domain/match-trades.ts'
import { BUY, OUTCOMES, SELL } from '#domain/order.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { FundsGateway } from '#live/funds-gateway.ts'
import type { BoardListener, MarketBoard, ShownMarket, ShownTrade } from '#live/market-board.ts'
import type { FiguresBook } from '#live/market-figures.ts'
import type { QuickMarketEvent } from '#live/price-board.ts'
import type { StreamPrice } from '#protocol/shapes/prices.ts'
import type { Clock } from '#runtime/clock.ts'
import { makeAssetChannels } from './asset-channel.ts'
import { bookOf, cleanBook, isDirty, makeBookChannel } from './book-channel.ts'
import type { TakenOrders } from './connection.ts'
import {
  type Feed,
  isSequenced,
  type MarketFeed,
  marketsOf,
  type OrdersFeed,
  type Wanted,
} from './feeds.ts'
import { makeFundsChannel } from './funds-channel.ts'
import { keepSnapshots } from './kept-snapshots.ts'
import { makeMarketChannel } from './market-channel.ts'
import * as messages from './messages.ts'
import { makeOrdersChannel } from './orders-channel.ts'
import type { ResolutionUpdate } from './resolution-update.ts'
import { makeTickerChannel } from './ticker-channel.ts'
import { type Replay, Topic } from './topic.ts'
import { type ChannelLimits, makeTopicRegistry } from './topic-registry.ts'

export type Channels<M> = BoardListener & {
  happened(marketId: MarketId, resolutionUpdate: ResolutionUpdate): void
  fundsChanged(trader: Address, chainId: number): void
  /** Reports that events of these kinds were missed: followers receive the current state. */
  missed(kinds: readonly OutsideKind[]): void
  knowAsset(asset: string): void
  priced(asset: string, event: StreamPrice): void
  quickMarket(asset: string, event: QuickMarketEvent): void
  /** Returns the feed of a subscription, or a rejection. */
  feedOf(wanted: Wanted): Feed<M> | Rejection
  join(feed: Feed<M>, member: M): void
  leave(feed: Feed<M>, member: M): void
  /** Returns the messages after a position or cursor; undefined if a snapshot is needed. */
  resume(feed: Feed<M>, since: number | string): Replay | undefined
  /** Returns the state of the feed at its last position; undefined while it is unknown. */
  snapshot(feed: Feed<M>, reset: boolean): string | undefined
  ordersSnapshot(feed: OrdersFeed<M>, taken: TakenOrders, reset: boolean): string
  /** Returns a position as clients see it. */
  shownPosition(feed: Feed<M>, at: number): number | string
  /** Breaks the chains that a load invalidated, before any reader is served. */
  breakChains(): void
  /** Returns the markets that clients follow, or did a moment ago. */
  watched(): 'all' | ReadonlySet<MarketId>
  /** Forgets topics without followers. */
  tidy(): void
  topics(): number
  lingering(): number
}

export type FundsSource = {
  readonly gateway: Pick<FundsGateway, 'funds'>
  readonly chainIds: ReadonlySet<number>
}

/** Kinds of feeds whose events come from other threads than those of the markets. */
export type OutsideKind = 'market' | 'markets' | 'price' | 'quick-market' | 'funds'

type ChannelHooks<M> = {
  /** Sends to every subscriber that is in step with the topic. */
  readonly publish: (topic: string, text: string) => void
  /** Called when members need a new snapshot because events were missed. */
  readonly broken: (feed: OrdersFeed<M>) => void
  /** Called when a conflated book was sent, so that it can be snapshotted. */
  readonly flushed: (feed: Feed<M>) => void
}

export function makeChannels<M>(ports: {
  readonly board: () => MarketBoard
  readonly figures: FiguresBook
  readonly limits: ChannelLimits
  readonly clock: Clock
  readonly hooks: ChannelHooks<M>
  /** Source of traders' funds, by chain; undefined if nothing is reserved. */
  readonly funds?: FundsSource | undefined
}): Channels<M> {
  const { board, limits, clock, hooks } = ports
  const markets = new Map<MarketId, MarketFeed<M>>()
  const registry = makeTopicRegistry<M>({
    limits,
    clock,
    publish: hooks.publish,
    forgotten: topicForgotten,
  })
  const books = makeBookChannel<M>({ registry, clock, flushed: hooks.flushed })
  const orders = makeOrdersChannel<M>(registry)
  const marketChannel = makeMarketChannel<M>(registry)
  const assets = makeAssetChannels<M>(registry, clock)
  const funds = makeFundsChannel<M>(registry, clock, {
    gateway: ports.funds?.gateway,
    chainIds: ports.funds?.chainIds ?? new Set(),
    flushed: hooks.flushed,
  })
  const tickers = makeTickerChannel<M>({
    ...{ registry, board, figures: ports.figures, clock },
    flushed: hooks.flushed,
  })
  const snapshots = keepSnapshots<M>(SNAPSHOTS_KEPT_BYTES_MAX)
  let breakPlanned = false
  /** True if markets may have opened or closed without an event. */
  let untold = false

  function marketFeed(shown: ShownMarket): MarketFeed<M> {
    let feed = markets.get(shown.market.id)
    if (feed === undefined) {
      const { seq } = shown
      feed = {
        shown,
        bookSeq: [seq, seq],
        tradesSeq: seq,
        books: [new Set(), new Set()],
        trades: undefined,
        market: undefined,
      }
      markets.set(shown.market.id, feed)
    }
    return feed
  }

  function tellTrades(of: MarketFeed<M>, event: OrdersMatched): void {
    of.tradesSeq = event.seq
    const feed = of.trades
    if (feed === undefined) return
    for (const trade of tradesOf(event)) {
      const one: ShownTrade = { ...trade, status: 'matched', txHash: '' }
      const { name, last } = feed.topic
      registry.say(feed, messages.trade(name, one, last, event.fills.length), one.seq)
    }
  }

  function tellOutcome(of: MarketFeed<M>, event: TradeOutcome): void {
    const { marketId, seq, atMs, txHash } = event
    of.tradesSeq = seq
    const feed = of.trades
    if (feed === undefined) return
    const change = {
      marketId,
      tradeId: event.tradeId,
      seq,
      prevSeq: feed.topic.last,
      status: STATUS_OF[event.type],
      txHash,
      reason: 'reason' in event ? event.reason : '',
      atMs,
    }
    registry.say(feed, messages.tradeStatus(feed.topic.name, change), seq)
  }

  function followed(shown: ShownMarket, event: MarketEvent): void {
    const of = marketFeed(shown)
    const { seq } = event
    if (!QUIET.has(event.type)) tickers.changed(event.marketId)
    switch (event.type) {
      case 'MarketOpened':
        of.bookSeq.fill(seq)
        of.tradesSeq = seq
        marketChannel.logged(of, 'created', event)
        break
      case 'OrderRested':
        books.changed(of, event, [event.price], seq)
        orders.rested(event)
        break
      case 'OrdersMatched': {
        const { taker, fills } = event
        const makers = taker.side === BUY ? SELL : BUY
        const prices = [...new Set(fills.map(({ price }) => price as number))]
        books.changed(of, { outcome: taker.outcome, side: makers }, prices, seq)
        tellTrades(of, event)
        orders.matched(event)
        break
      }
      case 'OrderClosed':
        if (event.remaining > 0) books.changed(of, event, [event.price], seq)
        orders.closed(event)
        break
      case 'MarketClosed':
        for (const outcome of OUTCOMES) books.replaced(of, outcome, seq)
        orders.ended(event)
        marketChannel.logged(of, event.reason, event)
        break
      case 'TradeSubmitted':
      case 'TradeConfirmed':
      case 'TradeFailed':
      case 'TradeReverted':
        tellOutcome(of, event)
        break
    }
  }

  function loaded(shown: ShownMarket, missed: boolean, dozed: boolean): void {
    const isNew = !markets.has(shown.market.id)
    const of = marketFeed(shown)
    if (!missed) return
    tickers.changed(shown.market.id)
    restart(of, shown.seq)
    if (isNew || !dozed) untold = true
    // Before the first load there are no followers that could have missed anything.
    const followers = registry.topics() > 0
    if ((isNew && !followers) || breakPlanned) return
    breakPlanned = true
    // Once for all markets loaded in this turn.
    setImmediate(breakChains)
  }

  /** Sets all feeds of the market to this number, and notifies their followers. */
  function restart(of: MarketFeed<M>, seq: Sequence): void {
    of.bookSeq.fill(seq)
    of.tradesSeq = seq
    for (const feed of [...of.books[0], ...of.books[1], of.trades]) {
      if (feed === undefined) continue
      if (feed.kind === 'book') cleanBook(feed)
      feed.topic.rebase(seq)
      feed.topic.published++
      publish(feed)
      if (feed.kind === 'book') hooks.flushed(feed)
    }
    if (of.market === undefined) return
    registry.skip(of.market)
    publish(of.market)
  }

  function publish(feed: Feed<M>): void {
    const text = written(feed, true)
    if (text !== undefined) hooks.publish(feed.topic.name, text)
  }

  function breakChains(): void {
    if (!breakPlanned) return
    breakPlanned = false
    for (const feed of orders.all()) {
      registry.skip(feed)
      hooks.broken(feed)
    }
    const all = untold ? marketChannel.all() : undefined
    untold = false
    if (all === undefined) return
    registry.skip(all)
    publish(all)
  }

  function missed(kinds: readonly OutsideKind[]): void {
    const wanted: ReadonlySet<string> = new Set(kinds)
    if (wanted.has('market')) marketChannel.unheard()
    for (const feed of [...registry.feeds()]) {
      if (!wanted.has(feed.kind) || isSequenced(feed)) continue
      if (feed.kind === 'funds') {
        funds.changed(feed.trader, feed.chainId)
        continue
      }
      registry.skip(feed)
      publish(feed)
    }
  }

  function kept(feed: Feed<M>, reset: boolean, write: () => string): string {
    const text = snapshots.of(feed, write)
    return reset ? `${text.slice(0, -1)},"reset":true}` : text
  }

  function written(feed: Feed<M>, reset: boolean): string | undefined {
    const { name, last } = feed.topic
    switch (feed.kind) {
      case 'book':
        // Its readers have an older state than the book; the next flush brings both together.
        if (isDirty(feed)) return undefined
        return kept(feed, reset, () => messages.bookSnapshot(name, bookOf(feed), last, false))
      case 'trades':
        return kept(feed, reset, () => messages.tradesSnapshot(name, feed.of.shown, last, false))
      case 'market':
        return marketChannel.snapshotOne(feed, reset)
      case 'markets': {
        const { size } = board().markets
        const cursor = feed.topic.cursor(last)
        return messages.marketsSnapshot(name, size, { cursor, reset, nowMs: clock.nowMs() })
      }
      case 'price':
      case 'quick-market':
        return assets.snapshot(feed, reset)
      case 'funds':
        return funds.snapshot(feed, reset)
      case 'ticker':
        return tickers.snapshot(feed, reset)
      case 'orders':
        return undefined
    }
  }

  /** Returns whether an owner of the feed's markets is not confirmed, so that newer changes may be missing here. */
  function isStale(feed: Feed<M>): boolean {
    const { isCurrent } = board()
    if (isCurrent()) return false
    const some = feed.kind === 'markets' ? 'all' : marketsOf(feed)
    return some === 'all' || some.some((marketId) => !isCurrent(marketId))
  }

  function topicForgotten(feed: Feed<M>): void {
    snapshots.forget(feed)
    switch (feed.kind) {
      case 'book':
        books.forget(feed)
        break
      case 'trades':
        feed.of.trades = undefined
        break
      case 'market':
      case 'markets':
        marketChannel.forget(feed)
        break
      case 'orders':
        orders.forget(feed)
        break
      case 'funds':
        funds.forget(feed)
        break
      case 'ticker':
        tickers.forget(feed)
        break
      case 'price':
      case 'quick-market':
        assets.forget(feed)
        break
    }
  }

  function feedOf(wanted: Wanted): Feed<M> | Rejection {
    switch (wanted.channel) {
      case 'orders':
        return orders.feedOf(wanted.trader)
      case 'funds':
        return funds.feedOf(wanted.trader, wanted.chainId)
      case 'ticker':
        return tickers.feedOf(wanted.marketIds)
      case 'price':
      case 'quick-market':
        return assets.feedOf(wanted.channel, wanted.asset)
      default:
        return wanted.marketId === undefined
          ? marketChannel.allFeed()
          : marketFeedOf(wanted, wanted.marketId)
    }
  }

  function marketFeedOf(
    wanted: Extract<Wanted, { marketId?: MarketId }>,
    marketId: MarketId,
  ): Feed<M> | Rejection {
    const shown = board().markets.get(marketId)
    if (shown === undefined) {
      return board().isCurrent() ? reject('MARKET_NOT_FOUND', 'marketId') : reject('OVERLOADED')
    }
    const of = marketFeed(shown)
    if (wanted.channel === 'book') return books.feedOf(of, wanted.outcome, wanted.maxHz)
    if (wanted.channel === 'market') return marketChannel.oneFeed(of)
    const name = `trades:${marketId}`
    of.trades ??= registry.put({ kind: 'trades', topic: new Topic<M>(name, of.tradesSeq), of })
    return of.trades
  }

  /** A client cannot have seen more than has happened. */
  function horizonOf(feed: Feed<M>): number {
    if (!isSequenced(feed)) return feed.topic.last
    return feed.kind === 'book' && isDirty(feed) ? feed.topic.last : feed.of.shown.seq
  }

  return {
    followed,
    loaded,
    // Topics with followers keep their state until those leave.
    forgotten(marketId) {
      markets.delete(marketId)
      marketChannel.over(marketId)
      tickers.forgotten(marketId)
    },
    happened(marketId, resolutionUpdate) {
      const shown = board().markets.get(marketId)
      const of = shown === undefined ? undefined : marketFeed(shown)
      marketChannel.happened(marketId, of, resolutionUpdate)
    },
    fundsChanged: funds.changed,
    missed,
    knowAsset: assets.know,
    priced: assets.priced,
    quickMarket: assets.quickMarket,
    feedOf,
    join: registry.join,
    leave: registry.leave,
    resume(feed, since) {
      const position = typeof since === 'string' ? feed.topic.positionOf(since) : since
      return position === undefined ? undefined : feed.topic.replay(position, horizonOf(feed))
    },
    snapshot(feed, reset) {
      const text = written(feed, reset)
      return text !== undefined && isStale(feed) ? messages.markStale(text) : text
    },
    ordersSnapshot(feed, taken, reset) {
      const { name } = feed.topic
      const trader = checksumAddress(feed.trader)
      const cursor = feed.topic.cursor(taken.at)
      return messages.ordersSnapshot(name, trader, taken, { cursor, reset, nowMs: clock.nowMs() })
    },
    shownPosition: (feed, at) => (isSequenced(feed) ? at : feed.topic.cursor(at)),
    breakChains,
    watched() {
      const watched = new Set<MarketId>()
      for (const feed of registry.feeds()) {
        const some = marketsOf(feed)
        if (some === 'all') return some
        for (const marketId of some) watched.add(marketId)
      }
      return watched
    },
    tidy: registry.tidy,
    topics: registry.topics,
    lingering: registry.lingering,
  }
}

/** Events that do not change a market's ticker. */
const QUIET: ReadonlySet<MarketEvent['type']> = new Set([
  'TradeSubmitted',
  'TradeConfirmed',
  'TradeReverted',
] as const)

const STATUS_OF = {
  TradeSubmitted: 'submitted',
  TradeConfirmed: 'confirmed',
  TradeFailed: 'failed',
  TradeReverted: 'reverted',
} as const
