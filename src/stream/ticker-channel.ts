/**
 * Tickers of all markets or some: changes are sent at intervals, several markets per message, each with its current
 * state. So a reader of a list costs the same however much is traded, and a lagging one misses no current state. A
 * market that returned to its last sent state is not sent.
 *
 * A line is written once per state of its market. Messages and snapshots of a set of markets are assembled from these
 * lines and not kept, because clients choose the sets.
 */

import { createHash } from 'node:crypto'
import type { MarketId, Sequence } from '#domain/ids.ts'
import { TICKERS_PER_MESSAGE_MAX } from '#domain/limits.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import { writeJson } from '#http/json.ts'
import type { MarketBoard, ShownMarket } from '#live/market-board.ts'
import type { FiguresBook, MarketFigures } from '#live/market-figures.ts'
import { tickerBody } from '#live/ticker.ts'
import type { Clock } from '#runtime/clock.ts'
import type { EventMarkets, Feed, TickerFeed } from './feeds.ts'
import type { TopicRegistry } from './topic-registry.ts'

/** Interval of messages. */
export const TICKER_MS = 500
/** Maximum wait for the database's figures. */
const PREPARING_MS_MAX = 3_000
/** Validity of figures prepared for a snapshot, and of the list of the newest markets. */
const PREPARED_MS = 1_000

/** Lines sent in one turn of the event loop, about 500 kB. */
const LINES_PER_TURN = 2_000

type Line = {
  /** State of the market and its figures that the line was written from. */
  readonly seq: Sequence
  readonly traded: MarketFigures | undefined
  readonly text: string
  /** The ticker line without its sequence number, for comparison. */
  readonly brief: string
}

const eventTopic = ({ chainId, slug }: Omit<EventMarkets, 'marketIds'>): string =>
  `ticker:event:${chainId}:${slug}`

type TickerChannel<M> = {
  /** Returns the feed of these markets, or of all. */
  feedOf(marketIds: readonly MarketId[] | undefined): TickerFeed<M> | Rejection
  /** Returns the feed of an event with these markets. */
  eventFeedOf(event: EventMarkets): TickerFeed<M>
  /** Adds a market to the feed of its event, if it has followers. */
  joinedEvent(event: Omit<EventMarkets, 'marketIds'>, marketId: MarketId): void
  changed(marketId: MarketId): void
  /** Undefined until the figures of its markets are known. */
  snapshot(feed: TickerFeed<M>, reset: boolean): string | undefined
  forgotten(marketId: MarketId): void
  forget(feed: TickerFeed<M>): void
}

export function makeTickerChannel<M>(ports: {
  readonly registry: TopicRegistry<M>
  readonly board: () => MarketBoard
  readonly figures: FiguresBook
  readonly clock: Clock
  /** Called when a feed can be snapshotted again. */
  readonly flushed: (feed: Feed<M>) => void
}): TickerChannel<M> {
  const { registry, board, figures, clock } = ports
  let all: TickerFeed<M> | undefined
  const named = new Map<string, TickerFeed<M>>()
  const byMarket = new Map<MarketId, Set<TickerFeed<M>>>()
  /** Markets that may differ from their last message, and those being checked. */
  const changed = new Set<MarketId>()
  let underway: readonly MarketId[] = []
  /** Last sent state of each market, in a short form for comparison. */
  const told = new Map<MarketId, string>()
  /** Last written line of each market, until it leaves the board. */
  const lines = new WeakMap<ShownMarket, Line>()
  /** Feeds with unsent messages: until these are sent, the state of their readers is unknown. */
  const untold = new Set<TickerFeed<M>>()
  let ticking = false
  let newest = { atMs: Number.NEGATIVE_INFINITY, marketIds: [] as readonly MarketId[], count: 0 }

  function tick(): void {
    if (ticking) return
    ticking = true
    clock.after(TICKER_MS, () => void flush())
  }

  /** Sends the markets that changed first; the others wait for the next interval. */
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
      // The database's figures may still change without further events.
      if (figures.isUnsure(marketId)) changed.add(marketId)
      const shown = board().markets.get(marketId)
      if (shown === undefined) continue
      const { text, brief } = lineOf(shown)
      if (told.get(marketId) === brief) continue
      told.set(marketId, brief)
      for (const feed of feedsOf(marketId)) {
        const list = entries.get(feed) ?? []
        list.push(text)
        entries.set(feed, list)
      }
    }
    await tell(entries)
    ticking = false
    if (changed.size > 0) tick()
  }

  /** Sends each feed its lines, a bounded number in each turn of the event loop. */
  async function tell(entries: ReadonlyMap<TickerFeed<M>, readonly string[]>): Promise<void> {
    for (const feed of entries.keys()) untold.add(feed)
    let lines = 0
    for (const [feed, texts] of entries) {
      if (lines > LINES_PER_TURN) {
        await new Promise(setImmediate)
        lines = 0
      }
      lines += texts.length
      // Its last follower may have left meanwhile.
      if (!untold.delete(feed)) continue
      const head = `{"type":"ticker","sub":"${feed.topic.name}","tickers":[${texts.join(',')}]`
      registry.sayNext(
        feed,
        ({ cursor, prevCursor }) =>
          `${head},"cursor":"${cursor}","prevCursor":"${prevCursor}","ts":${clock.nowMs()}}`,
      )
      ports.flushed(feed)
    }
  }

  /** If the database fails or is slow, the known figures stay: prices continue. */
  function prepare(marketIds: readonly MarketId[]): Promise<void> {
    return new Promise((resolve) => {
      const cancel = clock.after(PREPARING_MS_MAX, resolve)
      void figures
        .prepare(marketIds)
        .catch(() => undefined)
        .then(() => {
          cancel()
          resolve()
        })
    })
  }

  function feedsOf(marketId: MarketId): readonly TickerFeed<M>[] {
    const some = byMarket.get(marketId)
    if (some === undefined) return all === undefined ? [] : [all]
    return all === undefined ? [...some] : [all, ...some]
  }

  function lineOf(shown: ShownMarket): Line {
    const { market, closed } = shown
    const traded = figures.of(market.id)
    const known = lines.get(shown)
    if (known?.seq === shown.seq && known.traded === traded) return known
    const { seq, ...rest } = tickerBody({ ...market, closed }, shown, traded)
    const text = writeJson({ marketId: market.id, ...rest, seq })
    const line = { seq: shown.seq, traded, text, brief: Object.values(rest).join() }
    lines.set(shown, line)
    return line
  }

  /** Returns the newest open markets, the newest first. */
  function newestOpen(): typeof newest {
    const atMs = clock.nowMs()
    if (atMs - newest.atMs < PREPARED_MS) return newest
    const open: ShownMarket[] = []
    for (const shown of board().markets.values()) if (shown.closed === undefined) open.push(shown)
    const times = Float64Array.from(open, ({ market }) => market.createdAt).sort()
    const from = times[Math.max(0, times.length - TICKERS_PER_MESSAGE_MAX)] ?? 0
    const marketIds = open
      .filter(({ market }) => market.createdAt >= from)
      .sort(({ market: a }, { market: b }) => b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1))
      .slice(0, TICKERS_PER_MESSAGE_MAX)
      .map(({ market }) => market.id)
    newest = { atMs, marketIds, count: open.length }
    return newest
  }

  function make(name: string, marketIds: readonly MarketId[] | undefined): TickerFeed<M> {
    const topic = registry.counted(name)
    const times = { preparedAtMs: Number.NEGATIVE_INFINITY, preparing: false }
    return registry.put({ kind: 'ticker', topic, marketIds, ...times, written: undefined })
  }

  function namedFeed(name: string, marketIds: readonly MarketId[]): TickerFeed<M> {
    const known = named.get(name)
    if (known !== undefined) return known
    const feed = make(name, marketIds)
    named.set(name, feed)
    for (const id of marketIds) byMarket.set(id, (byMarket.get(id) ?? new Set()).add(feed))
    return feed
  }

  /** Requests the figures of the feed's markets, then serves waiting subscribers. */
  async function prepareFor(feed: TickerFeed<M>): Promise<void> {
    if (feed.preparing) return
    feed.preparing = true
    await prepare(feed.marketIds ?? newestOpen().marketIds)
    feed.preparing = false
    feed.preparedAtMs = clock.nowMs()
    ports.flushed(feed)
  }

  function write(feed: TickerFeed<M>, reset: boolean): string {
    const { topic } = feed
    const { marketIds, count } =
      feed.marketIds === undefined
        ? newestOpen()
        : { marketIds: feed.marketIds, count: feed.marketIds.length }
    const texts: string[] = []
    for (const marketId of marketIds) {
      const shown = board().markets.get(marketId)
      if (shown === undefined) continue
      texts.push(lineOf(shown).text)
      // Its reader now has a newer state than the last message: the next one must be sent.
      if (changed.has(marketId) || underway.includes(marketId)) told.delete(marketId)
    }
    return (
      `{"type":"ticker.snapshot","sub":"${topic.name}","tickers":[${texts.join(',')}],` +
      `"count":${count},"cursor":"${topic.cursor(topic.last)}","ts":${clock.nowMs()}` +
      `${reset ? ',"reset":true' : ''}}`
    )
  }

  return {
    feedOf(marketIds) {
      if (marketIds === undefined) {
        all ??= make('ticker', undefined)
        return all
      }
      const some: MarketId[] = []
      for (const id of new Set(marketIds)) {
        // Use the board's own string: the string of the request would be kept for each subscription.
        const known = board().markets.get(id)?.market.id
        if (known !== undefined) some.push(known)
        else if (!board().isCurrent()) return reject('OVERLOADED')
        else return reject('MARKET_NOT_FOUND', 'marketIds', `there is no market ${id}`)
      }
      some.sort()
      const digest = createHash('sha256').update(some.join()).digest('hex').slice(0, 32)
      const name = `ticker:${digest}`
      return namedFeed(name, some)
    },
    eventFeedOf: (event) => namedFeed(eventTopic(event), event.marketIds),
    joinedEvent(event, marketId) {
      const feed = named.get(eventTopic(event))
      if (feed?.marketIds === undefined || feed.marketIds.includes(marketId)) return
      feed.marketIds = [...feed.marketIds, marketId]
      byMarket.set(marketId, (byMarket.get(marketId) ?? new Set()).add(feed))
      // Other readers may have its line already: it is sent again.
      told.delete(marketId)
      changed.add(marketId)
      tick()
    },
    changed(marketId) {
      if (all === undefined && !byMarket.has(marketId)) return
      changed.add(marketId)
      tick()
    },
    snapshot(feed, reset) {
      if (untold.has(feed)) return undefined
      const nowMs = clock.nowMs()
      if (nowMs - feed.preparedAtMs >= PREPARED_MS) {
        void prepareFor(feed)
        return undefined
      }
      if (feed.marketIds !== undefined) return write(feed, reset)
      const { written } = feed
      const { last } = feed.topic
      // Subscribers between two messages get the same snapshot.
      if (written?.last === last && written.reset === reset && nowMs - written.atMs < TICKER_MS) {
        return written.text
      }
      const text = write(feed, reset)
      feed.written = { last, reset, atMs: nowMs, text }
      return text
    },
    forgotten(marketId) {
      told.delete(marketId)
      changed.delete(marketId)
    },
    forget(feed) {
      if (feed === all) all = undefined
      untold.delete(feed)
      named.delete(feed.topic.name)
      for (const id of feed.marketIds ?? []) {
        const some = byMarket.get(id)
        some?.delete(feed)
        if (some?.size === 0) byMarket.delete(id)
      }
      if (all === undefined && byMarket.size === 0) {
        told.clear()
        changed.clear()
      }
    },
  }
}
