/**
 * Tickers of all markets or of a set of markets. Changes are sent at intervals, several markets per message, each with
 * its current state. So the cost of a subscription does not depend on the number of trades. A slow reader still
 * receives the current state of each market. A market whose state equals its last sent state is not sent.
 *
 * Messages and snapshots of a set of markets are assembled from lines (`ticker-lines.ts`). They are not cached, because
 * clients choose the sets (`ticker-feeds.ts`).
 */

import type { MarketId } from '#domain/ids.ts'
import type { Rejection } from '#domain/rejection.ts'
import type { EventMarkets, TickerFeed } from './feeds.ts'
import { type EventKey, makeTickerFeeds } from './ticker-feeds.ts'
import { makeTickerLines } from './ticker-lines.ts'
import { makeTickerUpdates, TICKER_MS, type TickerPorts } from './ticker-updates.ts'

/** Time for which the loaded figures of a feed's markets count as current. */
const PREPARED_MS = 1_000

type TickerChannel<M> = {
  /** Returns the feed of these markets, or the feed of all markets if none are given. */
  feedOf(marketIds: readonly MarketId[] | undefined): TickerFeed<M> | Rejection
  /** Returns the feed of an event, with these markets. */
  eventFeedOf(event: EventMarkets): TickerFeed<M>
  /** Returns the events that have a feed. */
  followedEvents(): readonly EventKey[]
  /** Adds a market to the feed of its event, if that feed exists. */
  joinedEvent(event: EventKey, marketId: MarketId): void
  changed(marketId: MarketId): void
  /**
   * Returns the snapshot; undefined while the figures of the feed's markets are being loaded, or while messages of the
   * feed are unsent.
   */
  snapshot(feed: TickerFeed<M>, reset: boolean): string | undefined
  forgotten(marketId: MarketId): void
  forget(feed: TickerFeed<M>): void
}

export function makeTickerChannel<M>(ports: TickerPorts<M>): TickerChannel<M> {
  const { board, clock } = ports
  const feeds = makeTickerFeeds(ports)
  const lines = makeTickerLines(ports)
  const { lineOf, newestOpen, prepare } = lines
  const updates = makeTickerUpdates(ports, feeds, lines)

  function joinedEvent(event: EventKey, marketId: MarketId): void {
    // The event's subscribers have no ticker line of this market yet. So the line is sent again, although subscribers
    // of other feeds may already have the line.
    if (feeds.join(event, marketId)) updates.sendAgain(marketId)
  }

  /** Loads the figures of the feed's markets, then sends the snapshot to waiting subscribers. */
  async function prepareFor(feed: TickerFeed<M>): Promise<void> {
    if (feed.preparing) return
    feed.preparing = true
    await prepare(feed.marketIds ?? newestOpen().marketIds)
    feed.preparing = false
    feed.preparedAtMs = clock.nowMs()
    ports.flushed(feed)
  }

  function write(feed: TickerFeed<M>, reset: boolean): string {
    const { marketIds, count } =
      feed.marketIds === undefined
        ? newestOpen()
        : { marketIds: feed.marketIds, count: feed.marketIds.length }
    const texts: string[] = []
    for (const marketId of marketIds) {
      const shown = board().markets.get(marketId)
      if (shown === undefined) continue
      texts.push(lineOf(shown).text)
      updates.overtaken(marketId)
    }
    return tickerSnapshot(feed.topic, texts, { count, atMs: clock.nowMs(), reset })
  }

  return {
    feedOf: feeds.some,
    eventFeedOf(event) {
      const feed = feeds.event(event)
      // A message about a market that joined the event may have been lost, so all markets of the event are added again.
      for (const marketId of event.marketIds) joinedEvent(event, marketId)
      return feed
    },
    followedEvents: feeds.events,
    joinedEvent,
    changed(marketId) {
      if (feeds.has(marketId)) updates.changed(marketId)
    },
    snapshot(feed, reset) {
      if (updates.isUnsent(feed)) return undefined
      const nowMs = clock.nowMs()
      if (nowMs - feed.preparedAtMs >= PREPARED_MS) {
        void prepareFor(feed)
        return undefined
      }
      if (feed.marketIds !== undefined) return write(feed, reset)
      const { written } = feed
      const { last } = feed.topic
      // Subscribers that join between two messages get the same snapshot.
      if (written?.last === last && written.reset === reset && nowMs - written.atMs < TICKER_MS) {
        return written.text
      }
      const text = write(feed, reset)
      feed.written = { last, reset, atMs: nowMs, text }
      return text
    },
    forgotten: updates.forgotten,
    forget(feed) {
      feeds.forget(feed)
      updates.forget(feed)
    },
  }
}

function tickerSnapshot<M>(
  topic: TickerFeed<M>['topic'],
  lines: readonly string[],
  {
    count,
    atMs,
    reset,
  }: { readonly count: number; readonly atMs: number; readonly reset: boolean },
): string {
  return (
    `{"type":"ticker.snapshot","sub":"${topic.name}","tickers":[${lines.join(',')}],` +
    `"count":${count},"cursor":"${topic.cursor(topic.last)}","ts":${atMs}` +
    `${reset ? ',"reset":true' : ''}}`
  )
}
