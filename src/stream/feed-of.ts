/** The feed that a subscription asks for. */

import type { MarketId } from '#domain/ids.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { MarketBoard } from '#live/market-board.ts'
import type { ChannelParts } from './channel-parts.ts'
import type { Feed, Wanted } from './feeds.ts'

/** Returns the feed that a subscription asks for, or a rejection, for example if its market does not exist. */
export function feedOf<M>(
  parts: ChannelParts<M>,
  board: MarketBoard,
  wanted: Wanted,
): Feed<M> | Rejection {
  const { orders, funds, tickers, assets, marketChannel } = parts
  switch (wanted.channel) {
    case 'orders':
      return orders.feedOf(wanted.trader)
    case 'funds':
      return funds.feedOf(wanted.trader, wanted.chainId)
    case 'ticker':
      return tickers.feedOf(wanted.marketIds)
    case 'price':
    case 'quick-market':
      return assets.feedOf(wanted.channel, wanted.asset)
    default:
      return wanted.marketId === undefined
        ? marketChannel.allFeed()
        : marketFeedOf(parts, board, wanted, wanted.marketId)
  }
}

function marketFeedOf<M>(
  { marketFeed, books, trades, marketChannel }: ChannelParts<M>,
  board: MarketBoard,
  wanted: Extract<Wanted, { marketId?: MarketId }>,
  marketId: MarketId,
): Feed<M> | Rejection {
  const shown = board.markets.get(marketId)
  if (shown === undefined) {
    return board.isCurrent() ? reject('MARKET_NOT_FOUND', 'marketId') : reject('OVERLOADED')
  }
  const of = marketFeed(shown)
  if (wanted.channel === 'book') return books.feedOf(of, wanted)
  if (wanted.channel === 'market') return marketChannel.oneFeed(of)
  return trades.feedOf(of)
}
