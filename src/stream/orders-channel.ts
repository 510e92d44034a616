/** Publishes the events of a trader's orders in all markets. */

import { checksumAddress } from '#domain/checksum-address.ts'
import type { Address } from '#domain/ids.ts'
import type { MarketClosed, OrderClosed, OrderRested, OrdersMatched } from '#domain/market-event.ts'
import { makerOutcome, makerSide } from '#domain/match-trades.ts'
import type { OrdersFeed } from './feeds.ts'
import * as messages from './messages.ts'
import type { TopicRegistry } from './topic-registry.ts'

type OrdersChannel<M> = {
  feedOf(trader: Address): OrdersFeed<M>
  all(): Iterable<OrdersFeed<M>>
  rested(event: OrderRested): void
  matched(event: OrdersMatched): void
  closed(event: OrderClosed): void
  ended(event: MarketClosed): void
  forget(feed: OrdersFeed<M>): void
}

export function makeOrdersChannel<M>(registry: TopicRegistry<M>): OrdersChannel<M> {
  const feeds = new Map<Address, OrdersFeed<M>>()
  type Live = Omit<messages.OrderChange, 'status' | 'reason'>

  function tellOpen(trader: Address, change: Live): void {
    const isWhole = change.size === change.remaining
    tell(trader, { ...change, status: isWhole ? 'accepted' : 'partially_filled', reason: '' })
  }

  function tell(trader: Address, change: messages.OrderChange): void {
    const feed = feeds.get(trader)
    if (feed === undefined) return
    registry.sayNext(feed, (step) => messages.order(feed.topic.name, change, step))
  }

  return {
    feedOf(trader) {
      const known = feeds.get(trader)
      if (known !== undefined) return known
      const topic = registry.counted(`orders:${checksumAddress(trader)}`)
      const feed: OrdersFeed<M> = { kind: 'orders', topic, trader }
      feeds.set(trader, feed)
      return registry.put(feed)
    },
    all: () => feeds.values(),
    rested(event) {
      // An event without `order` and `returned` reports no new size, so skip it. For example, when the rest of a taker
      // enters the book, the message about its match already contained this remaining size.
      if (event.order !== undefined || event.returned) tellOpen(event.trader, event)
    },
    matched({ taker, takerRemaining, takerTags, fills, marketId, seq, atMs }) {
      if (feeds.size === 0) return
      // If nothing remains, the following `OrderClosed` reports the order as filled.
      if (takerRemaining > 0) {
        const change = { ...taker, remaining: takerRemaining, marketId, seq, atMs, tags: takerTags }
        tellOpen(taker.trader, change)
      }
      for (const fill of fills) {
        const { maker, makerHash: orderHash, makerRemaining: remaining, price, makerTags } = fill
        if (remaining === 0 || !feeds.has(maker)) continue
        const [side, outcome] = [makerSide(taker, fill), makerOutcome(taker, fill)]
        const change = { orderHash, marketId, side, outcome, price, size: undefined } as const
        tellOpen(maker, { ...change, remaining, seq, atMs, tags: makerTags })
      }
    },
    closed(event) {
      const reason = event.reason === 'taken' ? 'filled' : event.reason
      const status = reason === 'filled' || reason === 'expired' ? reason : 'cancelled'
      tell(event.trader, {
        ...event,
        status,
        reason: event.cause ?? (reason === status ? '' : reason),
      })
    },
    ended({ marketId, reason, seq, atMs }) {
      const status = reason === 'expired' ? 'expired' : 'cancelled'
      for (const feed of feeds.values()) {
        registry.sayNext(feed, (step) =>
          messages.ordersEnded(feed.topic.name, { marketId, status, reason, seq, atMs }, step),
        )
      }
    },
    forget: (feed) => void feeds.delete(feed.trader),
  }
}
