/**
 * Writes the state of each feed as a snapshot message. Snapshots of books and trades are cached until the book or the
 * trades change.
 */

import { bookOf, isDirty } from './book-channel.ts'
import type { ChannelParts, ChannelPorts } from './channel-parts.ts'
import { type Feed, marketsOf } from './feeds.ts'
import * as messages from './messages.ts'

export function makeSnapshotTexts<M>(
  { snapshots, marketChannel, assets, funds, tickers }: ChannelParts<M>,
  { board, clock }: Pick<ChannelPorts<M>, 'board' | 'clock'>,
) {
  function kept(feed: Feed<M>, reset: boolean, write: () => string): string {
    const text = snapshots.of(feed, write)
    return reset ? `${text.slice(0, -1)},"reset":true}` : text
  }

  function written(feed: Feed<M>, reset: boolean): string | undefined {
    const { name, last } = feed.topic
    switch (feed.kind) {
      case 'book':
        // If subscribers have not received the last changes of this conflated book yet, no snapshot is possible until
        // the next flush.
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

  /**
   * Returns whether the feed's data may be outdated. This is the case if the thread of one of the feed's markets has
   * not confirmed its ownership of the market recently.
   */
  function isStale(feed: Feed<M>): boolean {
    const { isCurrent } = board()
    if (isCurrent()) return false
    const some = feed.kind === 'markets' ? 'all' : marketsOf(feed)
    return some === 'all' || some.some((marketId) => !isCurrent(marketId))
  }

  return {
    written,
    snapshot(feed: Feed<M>, reset: boolean): string | undefined {
      const text = written(feed, reset)
      return text !== undefined && isStale(feed) ? messages.markStale(text) : text
    },
  }
}
