/**
 * Channels with the events of one market or of all markets. Openings and closings come from the markets' logs, later
 * events from the chain. This front merges both kinds in the order of arrival, so cursors are valid only on this front.
 */

import type { MarketId } from '#domain/ids.ts'
import type { CloseReason } from '#domain/market.ts'
import { remember } from '#domain/remember.ts'
import type { AllMarketsFeed, MarketFeed, OneMarketFeed } from './feeds.ts'
import * as messages from './messages.ts'
import type { ResolutionUpdate } from './resolution-update.ts'
import type { TopicRegistry } from './topic-registry.ts'

/** Maximum number of markets whose last chain event is remembered for snapshots. */
const REMEMBERED_MAX = 100_000

type MarketChannel<M> = {
  oneFeed(of: MarketFeed<M>): OneMarketFeed<M>
  allFeed(): AllMarketsFeed<M>
  /** Returns the feed of all markets; undefined if it does not exist. */
  all(): AllMarketsFeed<M> | undefined
  /** Publishes an event of the market's log. */
  logged(
    of: MarketFeed<M>,
    event: 'created' | CloseReason,
    at: { readonly seq: number; readonly atMs: number },
  ): void
  /** Publishes an event of the chain. `of` is undefined if this front's board does not contain the market. */
  happened(
    marketId: MarketId,
    of: MarketFeed<M> | undefined,
    resolutionUpdate: ResolutionUpdate,
  ): void
  /** Forgets the last chain events of all markets, because they may be outdated. */
  mayHaveMissed(): void
  /** Called when the market has ended and is removed. */
  over(marketId: MarketId): void
  snapshotOne(feed: OneMarketFeed<M>, reset: boolean): string
  forget(feed: OneMarketFeed<M> | AllMarketsFeed<M>): void
}

export function makeMarketChannel<M>(registry: TopicRegistry<M>): MarketChannel<M> {
  const remembered = new Map<
    MarketId,
    { readonly text: string; readonly resolutionUpdate: ResolutionUpdate }
  >()
  let all: AllMarketsFeed<M> | undefined

  function tell(of: MarketFeed<M> | undefined, change: messages.MarketChange): void {
    for (const feed of [of?.market, all]) {
      if (feed === undefined) continue
      registry.sayNext(feed, (step) => messages.market(feed.topic.name, change, step))
    }
  }

  return {
    oneFeed(of) {
      const name = `market:${of.shown.market.id}`
      of.market ??= registry.put({ kind: 'market', topic: registry.counted(name), of })
      return of.market
    },
    allFeed() {
      all ??= registry.put({ kind: 'markets', topic: registry.counted('market') })
      return all
    },
    all: () => all,
    logged: (of, event, { seq, atMs }) =>
      tell(of, { marketId: of.shown.market.id, event, seq, atMs }),
    happened(marketId, of, resolutionUpdate) {
      const { event, facts, atMs } = resolutionUpdate
      const text = JSON.stringify([event, facts])
      // A source that reconnects repeats the last event of each market. An event that was already published is not sent
      // again.
      if (remembered.get(marketId)?.text === text) return
      remember(remembered, marketId, { text, resolutionUpdate }, REMEMBERED_MAX)
      tell(of, { marketId, event, facts, atMs })
    },
    mayHaveMissed: () => remembered.clear(),
    over: (marketId) => void remembered.delete(marketId),
    snapshotOne({ topic, of }, reset) {
      const { shown } = of
      const last = remembered.get(shown.market.id)?.resolutionUpdate
      const cursor = topic.cursor(topic.last)
      return messages.marketSnapshot(topic.name, shown, last, { cursor, reset })
    },
    forget(feed) {
      if (feed.kind === 'markets') all = undefined
      else feed.of.market = undefined
    },
  }
}
