/** Ticker feeds for all markets, for markets that a client chose, and for the markets of an event. */

import { createHash } from 'node:crypto'
import type { MarketId } from '#domain/ids.ts'
import { EVENT_MARKETS_MAX } from '#domain/limits.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { MarketBoard } from '#live/market-board.ts'
import type { EventMarkets, TickerFeed } from './feeds.ts'
import type { TopicRegistry } from './topic-registry.ts'

export type EventKey = Omit<EventMarkets, 'marketIds'>

const eventTopic = ({ chainId, slug }: EventKey): string => `ticker:event:${chainId}:${slug}`

export type TickerFeeds<M> = ReturnType<typeof makeTickerFeeds<M>>

export function makeTickerFeeds<M>({
  registry,
  board,
}: {
  readonly registry: TopicRegistry<M>
  readonly board: () => MarketBoard
}) {
  let all: TickerFeed<M> | undefined
  const named = new Map<string, TickerFeed<M>>()
  const byMarket = new Map<MarketId, Set<TickerFeed<M>>>()
  const events = new WeakMap<TickerFeed<M>, EventKey>()

  function make(name: string, marketIds: readonly MarketId[] | undefined): TickerFeed<M> {
    const topic = registry.counted(name)
    const times = { preparedAtMs: Number.NEGATIVE_INFINITY, preparing: false }
    return registry.put({ kind: 'ticker', topic, marketIds, ...times, written: undefined })
  }

  function add(marketId: MarketId, feed: TickerFeed<M>): void {
    byMarket.set(marketId, (byMarket.get(marketId) ?? new Set()).add(feed))
  }

  function namedFeed(name: string, marketIds: readonly MarketId[]): TickerFeed<M> {
    const known = named.get(name)
    if (known !== undefined) return known
    const feed = make(name, marketIds)
    named.set(name, feed)
    for (const id of marketIds) add(id, feed)
    return feed
  }

  return {
    /** Returns the feed of these markets, or the feed of all markets if none are given. */
    some(marketIds: readonly MarketId[] | undefined): TickerFeed<M> | Rejection {
      if (marketIds === undefined) {
        all ??= make('ticker', undefined)
        return all
      }
      const some: MarketId[] = []
      for (const id of new Set(marketIds)) {
        // Use the board's string of the id. Otherwise each subscription would keep its own copy of the id in memory.
        const known = board().markets.get(id)?.market.id
        if (known !== undefined) some.push(known)
        else if (!board().isCurrent()) return reject('OVERLOADED')
        else return reject('MARKET_NOT_FOUND', 'marketIds', `this exchange has no market ${id}`)
      }
      some.sort()
      const digest = createHash('sha256').update(some.join()).digest('hex').slice(0, 32)
      return namedFeed(`ticker:${digest}`, some)
    },
    event({ marketIds, ...event }: EventMarkets): TickerFeed<M> {
      const feed = namedFeed(eventTopic(event), marketIds)
      events.set(feed, event)
      return feed
    },
    /** Returns the events that have a feed. */
    events: () => [...named.values()].flatMap((feed) => events.get(feed) ?? []),
    /**
     * Adds a market to the feed of its event. Returns false if the event has no feed, or if the feed has the market
     * already or is full.
     */
    join(event: EventKey, marketId: MarketId): boolean {
      const feed = named.get(eventTopic(event))
      if (feed?.marketIds === undefined || feed.marketIds.includes(marketId)) return false
      if (feed.marketIds.length >= EVENT_MARKETS_MAX) return false
      feed.marketIds = [...feed.marketIds, marketId]
      add(marketId, feed)
      return true
    },
    has: (marketId: MarketId) => all !== undefined || byMarket.has(marketId),
    /** Returns the feeds that contain the market. */
    of(marketId: MarketId): readonly TickerFeed<M>[] {
      const some = byMarket.get(marketId)
      if (some === undefined) return all === undefined ? [] : [all]
      return all === undefined ? [...some] : [all, ...some]
    },
    forget(feed: TickerFeed<M>): void {
      if (feed === all) all = undefined
      named.delete(feed.topic.name)
      for (const id of feed.marketIds ?? []) {
        const some = byMarket.get(id)
        some?.delete(feed)
        if (some?.size === 0) byMarket.delete(id)
      }
    },
    areNone: () => all === undefined && byMarket.size === 0,
  }
}
