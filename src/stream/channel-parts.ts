/** The channels of a stream, each with its topics in one registry. */

import type { MarketId } from '#domain/ids.ts'
import { SNAPSHOTS_KEPT_BYTES_MAX } from '#domain/limits.ts'
import type { FundsGateway } from '#live/funds-gateway.ts'
import type { MarketBoard, ShownMarket } from '#live/market-board.ts'
import type { FiguresBook } from '#live/market-figures.ts'
import type { Clock } from '#runtime/clock.ts'
import { makeAssetChannels } from './asset-channel.ts'
import { makeBookChannel } from './book-channel.ts'
import type { Feed, MarketFeed, OrdersFeed } from './feeds.ts'
import { makeFundsChannel } from './funds-channel.ts'
import { keepSnapshots } from './kept-snapshots.ts'
import { makeMarketChannel } from './market-channel.ts'
import { makeOrdersChannel } from './orders-channel.ts'
import { makeTickerChannel } from './ticker-channel.ts'
import { type ChannelLimits, makeTopicRegistry } from './topic-registry.ts'
import { makeTradesChannel } from './trades-channel.ts'

export type FundsSource = {
  readonly gateway: Pick<FundsGateway, 'funds'>
  readonly chainIds: ReadonlySet<number>
}

export type ChannelHooks<M> = {
  /** Sends the text to every subscriber that is up to date with the topic. */
  readonly publish: (topic: string, text: string) => void
  /** Called when subscribers need a new snapshot because events were missed. */
  readonly broken: (feed: OrdersFeed<M>) => void
  /** Called after the changes of a conflated book were sent. From then on, a snapshot of the book can be made. */
  readonly flushed: (feed: Feed<M>) => void
}

export type ChannelPorts<M> = {
  readonly board: () => MarketBoard
  readonly figures: FiguresBook
  readonly limits: ChannelLimits
  readonly clock: Clock
  readonly hooks: ChannelHooks<M>
  /** Source of traders' funds, and the chains that it covers; undefined if the exchange reserves no funds. */
  readonly funds?: FundsSource | undefined
}

export type ChannelParts<M> = ReturnType<typeof makeChannelParts<M>>

export function makeChannelParts<M>(ports: ChannelPorts<M>) {
  const { board, limits, clock, hooks } = ports
  const markets = new Map<MarketId, MarketFeed<M>>()
  const registry = makeTopicRegistry<M>({
    limits,
    clock,
    publish: hooks.publish,
    forgotten: topicForgotten,
  })
  const books = makeBookChannel<M>({ registry, clock, flushed: hooks.flushed })
  const trades = makeTradesChannel<M>(registry)
  const orders = makeOrdersChannel<M>(registry)
  const marketChannel = makeMarketChannel<M>(registry)
  const assets = makeAssetChannels<M>(registry, clock)
  const funds = makeFundsChannel<M>(registry, clock, {
    gateway: ports.funds?.gateway,
    chainIds: ports.funds?.chainIds ?? new Set(),
    flushed: hooks.flushed,
  })
  const tickers = makeTickerChannel<M>({
    ...{ registry, board, figures: ports.figures, clock },
    flushed: hooks.flushed,
  })
  const snapshots = keepSnapshots<M>(SNAPSHOTS_KEPT_BYTES_MAX)

  function marketFeed(shown: ShownMarket): MarketFeed<M> {
    let feed = markets.get(shown.market.id)
    if (feed === undefined) {
      const { seq } = shown
      feed = {
        shown,
        bookSeq: [seq, seq],
        tradesSeq: seq,
        books: [new Set(), new Set()],
        implied: new Set(),
        trades: undefined,
        market: undefined,
      }
      markets.set(shown.market.id, feed)
    }
    return feed
  }

  function topicForgotten(feed: Feed<M>): void {
    snapshots.forget(feed)
    switch (feed.kind) {
      case 'book':
        books.forget(feed)
        break
      case 'trades':
        trades.forget(feed)
        break
      case 'market':
      case 'markets':
        marketChannel.forget(feed)
        break
      case 'orders':
        orders.forget(feed)
        break
      case 'funds':
        funds.forget(feed)
        break
      case 'ticker':
        tickers.forget(feed)
        break
      case 'price':
      case 'quick-market':
        assets.forget(feed)
        break
    }
  }

  return {
    ...{ markets, marketFeed, registry, snapshots },
    ...{ books, trades, orders, marketChannel, assets, funds, tickers },
  }
}
