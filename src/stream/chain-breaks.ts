/** Handles broken chains of messages: if events were missed, their subscribers start over. */

import type { Sequence } from '#domain/ids.ts'
import type { ShownMarket } from '#live/market-board.ts'
import { cleanBook } from './book-channel.ts'
import type { ChannelHooks, ChannelParts } from './channel-parts.ts'
import { type Feed, isSequenced, type MarketFeed } from './feeds.ts'

/** Kinds of feeds whose events come from other threads than those of the markets. */
export type OutsideKind = 'market' | 'markets' | 'price' | 'quick-market' | 'funds'

export function makeChainBreaks<M>(
  { markets, marketFeed, registry, orders, marketChannel, tickers, funds }: ChannelParts<M>,
  hooks: ChannelHooks<M>,
  written: (feed: Feed<M>, reset: boolean) => string | undefined,
) {
  let breakPlanned = false
  /** True if markets may have opened or closed without an event. */
  let untold = false

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

  /** Sets all feeds of the market to this number, and notifies their subscribers. */
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

  return { loaded, breakChains, missed }
}
