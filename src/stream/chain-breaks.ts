/**
 * Handles gaps in the messages of a topic. Each message contains the position of the message before it. If events were
 * missed, the subscribers start over with a snapshot.
 */

import type { Sequence } from '#domain/ids.ts'
import type { ShownMarket } from '#live/market-board.ts'
import { cleanBook } from './book-channel.ts'
import type { ChannelHooks, ChannelParts } from './channel-parts.ts'
import { type Feed, isSequenced, type MarketFeed } from './feeds.ts'

/** Kinds of feeds with events that do not come from market threads. */
export type OutsideKind = 'market' | 'markets' | 'price' | 'quick-market' | 'funds'

export function makeChainBreaks<M>(
  { markets, marketFeed, registry, orders, marketChannel, tickers, funds }: ChannelParts<M>,
  hooks: ChannelHooks<M>,
  written: (feed: Feed<M>, reset: boolean) => string | undefined,
) {
  let breakPlanned = false
  /** True if the events of opened or closed markets may have been missed. */
  let eventsMissed = false

  function loaded(shown: ShownMarket, missed: boolean, dozed: boolean): void {
    const isNew = !markets.has(shown.market.id)
    const of = marketFeed(shown)
    if (!missed) return
    tickers.changed(shown.market.id)
    restart(of, shown.seq)
    if (isNew || !dozed) eventsMissed = true
    // If there are no topics, as at the first load of the markets, no follower has missed events.
    const followers = registry.topics() > 0
    if ((isNew && !followers) || breakPlanned) return
    breakPlanned = true
    // If several markets are loaded in this turn of the event loop, their subscribers start over together.
    setImmediate(breakChains)
  }

  /**
   * Drops the kept messages of the market's feeds, sets the feeds' positions to `seq`, and sends new snapshots to their
   * subscribers.
   */
  function restart(of: MarketFeed<M>, seq: Sequence): void {
    of.bookSeq.fill(seq)
    of.tradesSeq = seq
    for (const feed of [...of.books[0], ...of.books[1], ...of.implied, of.trades]) {
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
    const all = eventsMissed ? marketChannel.all() : undefined
    eventsMissed = false
    if (all === undefined) return
    registry.skip(all)
    publish(all)
  }

  function missed(kinds: readonly OutsideKind[]): void {
    const wanted: ReadonlySet<string> = new Set(kinds)
    if (wanted.has('market')) marketChannel.mayHaveMissed()
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

  return { loaded, breakChains, missed }
}
