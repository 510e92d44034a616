/** The channel with the trades of a market: a message for each trade, and a message for each settlement result. */

import type { OrdersMatched, TradeOutcome } from '#domain/market-event.ts'
import { tradesOf } from '#domain/match-trades.ts'
import type { ShownTrade } from '#live/market-board.ts'
import type { MarketFeed, TradesFeed } from './feeds.ts'
import * as messages from './messages.ts'
import { Topic } from './topic.ts'
import type { TopicRegistry } from './topic-registry.ts'

const STATUS_OF = {
  TradeSubmitted: 'submitted',
  TradeConfirmed: 'confirmed',
  TradeFailed: 'failed',
  TradeReverted: 'reverted',
} as const

export function makeTradesChannel<M>(registry: TopicRegistry<M>) {
  function matched(of: MarketFeed<M>, event: OrdersMatched): void {
    of.tradesSeq = event.seq
    const feed = of.trades
    if (feed === undefined) return
    for (const trade of tradesOf(event)) {
      const one: ShownTrade = { ...trade, status: 'matched', txHash: '' }
      const { name, last } = feed.topic
      registry.say(feed, messages.trade(name, one, last, event.fills.length), one.seq)
    }
  }

  function decided(of: MarketFeed<M>, event: TradeOutcome): void {
    const { marketId, seq, atMs, txHash } = event
    of.tradesSeq = seq
    const feed = of.trades
    if (feed === undefined) return
    const change = {
      marketId,
      tradeId: event.tradeId,
      seq,
      prevSeq: feed.topic.last,
      status: STATUS_OF[event.type],
      txHash,
      reason: 'reason' in event ? event.reason : '',
      atMs,
    }
    registry.say(feed, messages.tradeStatus(feed.topic.name, change), seq)
  }

  return {
    matched,
    decided,
    feedOf(of: MarketFeed<M>): TradesFeed<M> {
      const name = `trades:${of.shown.market.id}`
      of.trades ??= registry.put({ kind: 'trades', topic: new Topic<M>(name, of.tradesSeq), of })
      return of.trades
    },
    forget(feed: TradesFeed<M>): void {
      feed.of.trades = undefined
    },
  }
}
