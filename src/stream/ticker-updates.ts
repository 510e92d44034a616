/** Sends changed tickers at intervals. A market whose state equals its last sent state is not sent. */

import type { MarketId } from '#domain/ids.ts'
import { TICKERS_PER_MESSAGE_MAX } from '#domain/limits.ts'
import type { MarketBoard } from '#live/market-board.ts'
import type { FiguresBook } from '#live/market-figures.ts'
import type { Clock } from '#runtime/clock.ts'
import type { Feed, TickerFeed } from './feeds.ts'
import type { TickerFeeds } from './ticker-feeds.ts'
import type { TickerLines } from './ticker-lines.ts'
import type { TopicRegistry } from './topic-registry.ts'

/** Interval of messages. */
export const TICKER_MS = 500

/** Number of lines, about 500 kB, after which sending continues in the next turn of the event loop. */
const LINES_PER_TURN = 2_000

export type TickerPorts<M> = {
  readonly registry: TopicRegistry<M>
  readonly board: () => MarketBoard
  readonly figures: FiguresBook
  readonly clock: Clock
  /** Called when the snapshot of a feed has become available, to send it to waiting subscribers. */
  readonly flushed: (feed: Feed<M>) => void
}

export function makeTickerUpdates<M>(
  ports: TickerPorts<M>,
  feeds: TickerFeeds<M>,
  { lineOf, prepare }: TickerLines,
) {
  const { board, figures, clock } = ports
  /**
   * Markets whose state may differ from their last sent ticker. `underway` has the markets that the current `flush`
   * took from `changed`.
   */
  const changed = new Set<MarketId>()
  let underway: readonly MarketId[] = []
  /** Last sent state of each market, in a short form for comparison. */
  const lastSent = new Map<MarketId, string>()
  /**
   * Feeds with messages that are written but not yet sent. Until the messages are sent, no snapshot of these feeds can
   * be made.
   */
  const unsent = new Set<TickerFeed<M>>()
  let ticking = false

  function tick(): void {
    if (ticking) return
    ticking = true
    clock.after(TICKER_MS, () => void flush())
  }

  /**
   * Sends the tickers of the markets that have waited longest, as many as fit into one message. The other
   * changed markets wait for the next interval.
   */
  async function flush(): Promise<void> {
    const some: MarketId[] = []
    for (const marketId of changed) {
      if (some.length === TICKERS_PER_MESSAGE_MAX) break
      some.push(marketId)
      changed.delete(marketId)
    }
    underway = some
    await prepare(some)
    underway = []
    const entries = new Map<TickerFeed<M>, string[]>()
    for (const marketId of some) {
      // If the board missed a trade of this market, or one of its trades failed, the database may be outdated for 5 s.
      // During this time, check the market again at each interval.
      if (figures.isUnsure(marketId)) changed.add(marketId)
      const shown = board().markets.get(marketId)
      if (shown === undefined) continue
      const { text, brief } = lineOf(shown)
      if (lastSent.get(marketId) === brief) continue
      lastSent.set(marketId, brief)
      for (const feed of feeds.of(marketId)) {
        const list = entries.get(feed) ?? []
        list.push(text)
        entries.set(feed, list)
      }
    }
    await sendLines(ports, entries, unsent)
    ticking = false
    if (changed.size > 0) tick()
  }

  return {
    changed(marketId: MarketId): void {
      changed.add(marketId)
      tick()
    },
    /** Sends the market's line even if it has not changed. */
    sendAgain(marketId: MarketId): void {
      lastSent.delete(marketId)
      changed.add(marketId)
      tick()
    },
    /**
     * Called when a snapshot contains this market. If a change of the market is unsent, the snapshot may already show
     * it. If the market then changes back, its ticker equals the last one sent. The ticker must be sent anyway, because
     * readers of the snapshot have the other state.
     */
    overtaken(marketId: MarketId): void {
      if (changed.has(marketId) || underway.includes(marketId)) lastSent.delete(marketId)
    },
    isUnsent: (feed: TickerFeed<M>): boolean => unsent.has(feed),
    forgotten(marketId: MarketId): void {
      lastSent.delete(marketId)
      changed.delete(marketId)
    },
    forget(feed: TickerFeed<M>): void {
      unsent.delete(feed)
      if (!feeds.areNone()) return
      lastSent.clear()
      changed.clear()
    },
  }
}

/** Sends the lines to the feeds, about `LINES_PER_TURN` lines at most in each turn of the event loop. */
async function sendLines<M>(
  { registry, clock, flushed }: Pick<TickerPorts<M>, 'registry' | 'clock' | 'flushed'>,
  entries: ReadonlyMap<TickerFeed<M>, readonly string[]>,
  unsent: Set<TickerFeed<M>>,
): Promise<void> {
  for (const feed of entries.keys()) unsent.add(feed)
  let lines = 0
  for (const [feed, texts] of entries) {
    if (lines > LINES_PER_TURN) {
      await new Promise(setImmediate)
      lines = 0
    }
    lines += texts.length
    // The last subscriber of the feed may have left since this loop began.
    if (!unsent.delete(feed)) continue
    const head = `{"type":"ticker","sub":"${feed.topic.name}","tickers":[${texts.join(',')}]`
    registry.sayNext(
      feed,
      ({ cursor, prevCursor }) =>
        `${head},"cursor":"${cursor}","prevCursor":"${prevCursor}","ts":${clock.nowMs()}}`,
    )
    flushed(feed)
  }
}
