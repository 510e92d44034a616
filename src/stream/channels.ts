/**
 * Turns events of the board (this front's memory of the markets) and of other threads into messages of the topics that
 * have followers. Keeps the message chain of every topic consistent, even without followers. A message is written once
 * and passed to `publish` once, whatever the number of readers. This module handles subscriptions as members of topics;
 * it does not use sockets.
 */

import { checksumAddress } from '#domain/checksum-address.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import type { Rejection } from '#domain/rejection.ts'
import type { BoardListener } from '#live/market-board.ts'
import type { QuickMarketEvent } from '#live/price-board.ts'
import type { StreamPrice } from '#protocol/shapes/prices.ts'
import { isDirty } from './book-channel.ts'
import { makeChainBreaks, type OutsideKind } from './chain-breaks.ts'
import { type ChannelPorts, makeChannelParts } from './channel-parts.ts'
import type { TakenOrders } from './connection.ts'
import { feedOf } from './feed-of.ts'
import {
  type EventMarkets,
  type Feed,
  isSequenced,
  marketsOf,
  type OrdersFeed,
  type Wanted,
} from './feeds.ts'
import { followEvent } from './follow-event.ts'
import * as messages from './messages.ts'
import type { ResolutionUpdate } from './resolution-update.ts'
import { makeSnapshotTexts } from './snapshot-texts.ts'
import type { Replay } from './topic.ts'

export type Channels<M> = BoardListener & {
  happened(marketId: MarketId, resolutionUpdate: ResolutionUpdate): void
  fundsChanged(trader: Address, chainId: number): void
  /**
   * Sends the current state to the followers of feeds of these kinds. Called when events of these kinds were
   * missed.
   */
  missed(kinds: readonly OutsideKind[]): void
  knowAsset(asset: string): void
  priced(asset: string, event: StreamPrice): void
  quickMarket(asset: string, event: QuickMarketEvent): void
  /** Returns the feed of a subscription, or a rejection. */
  feedOf(wanted: Wanted): Feed<M> | Rejection
  /** Returns the feed of an event's tickers. */
  eventFeedOf(event: EventMarkets): Feed<M>
  /** Returns the events whose tickers have followers. */
  followedEvents(): readonly Omit<EventMarkets, 'marketIds'>[]
  /** Adds a market to the ticker feed of its event, if that feed exists. */
  joinedEvent(event: Omit<EventMarkets, 'marketIds'>, marketId: MarketId): void
  join(feed: Feed<M>, member: M): void
  leave(feed: Feed<M>, member: M): void
  /** Returns the messages after a position or cursor; undefined if a snapshot is needed. */
  resume(feed: Feed<M>, since: number | string): Replay | undefined
  /** Returns a snapshot of the feed at its last position; undefined while no snapshot can be made. */
  snapshot(feed: Feed<M>, reset: boolean): string | undefined
  ordersSnapshot(feed: OrdersFeed<M>, taken: TakenOrders, reset: boolean): string
  /** Returns a position as clients see it. */
  shownPosition(feed: Feed<M>, at: number): number | string
  /**
   * If events of some topics were missed, makes the subscribers of these topics start over with a snapshot. Must be
   * called before any reader is served.
   */
  breakChains(): void
  /** Returns the markets that clients follow, or have followed within the last `lingerMs`. */
  watched(): 'all' | ReadonlySet<MarketId>
  /** Forgets topics without followers. */
  tidy(): void
  topics(): number
  lingering(): number
}

export function makeChannels<M>(ports: ChannelPorts<M>): Channels<M> {
  const { board, clock } = ports
  const parts = makeChannelParts(ports)
  const { registry, marketChannel, tickers, funds, assets } = parts
  const texts = makeSnapshotTexts(parts, ports)
  const breaks = makeChainBreaks(parts, ports.hooks, texts.written)

  return {
    followed: (shown, event) => followEvent(parts, shown, event),
    loaded: breaks.loaded,
    // The market's topics that have followers keep their state until the last follower leaves.
    forgotten(marketId) {
      parts.markets.delete(marketId)
      marketChannel.over(marketId)
      tickers.forgotten(marketId)
    },
    happened(marketId, resolutionUpdate) {
      const shown = board().markets.get(marketId)
      const of = shown === undefined ? undefined : parts.marketFeed(shown)
      marketChannel.happened(marketId, of, resolutionUpdate)
    },
    fundsChanged: funds.changed,
    missed: breaks.missed,
    knowAsset: assets.know,
    priced: assets.priced,
    quickMarket: assets.quickMarket,
    feedOf: (wanted) => feedOf(parts, board(), wanted),
    eventFeedOf: tickers.eventFeedOf,
    followedEvents: tickers.followedEvents,
    joinedEvent: tickers.joinedEvent,
    join: registry.join,
    leave: registry.leave,
    resume(feed, since) {
      const position = typeof since === 'string' ? feed.topic.positionOf(since) : since
      return position === undefined ? undefined : feed.topic.replay(position, horizonOf(feed))
    },
    snapshot: texts.snapshot,
    ordersSnapshot(feed, taken, reset) {
      const { name } = feed.topic
      const trader = checksumAddress(feed.trader)
      const cursor = feed.topic.cursor(taken.at)
      return messages.ordersSnapshot(name, trader, taken, { cursor, reset, nowMs: clock.nowMs() })
    },
    shownPosition: (feed, at) => (isSequenced(feed) ? at : feed.topic.cursor(at)),
    breakChains: breaks.breakChains,
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

/** Returns the highest position from which a client may resume; higher positions are invalid. */
function horizonOf<M>(feed: Feed<M>): number {
  if (!isSequenced(feed)) return feed.topic.last
  return feed.kind === 'book' && isDirty(feed) ? feed.topic.last : feed.of.shown.seq
}
