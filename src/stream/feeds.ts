/**
 * What can be subscribed to, as types: a feed is a topic and what it is about. Feeds of one market's
 * log are chained by its sequence numbers. All others are counted by their topic alone: they hear of
 * several markets, or of things that happen outside of every log.
 */

import type { Address, MarketId, Sequence } from '#domain/ids.ts'
import type { Outcome } from '#domain/order.ts'
import type { ShownMarket } from '#live/market-board.ts'
import type { Edges } from './book-window.ts'
import type { Topic } from './topic.ts'

/** How often a conflated book may be told, each a topic of its own. */
export const CONFLATED_HZ = [1, 5, 10, 20] as const
export type Hz = (typeof CONFLATED_HZ)[number]

const ASSET_CHANNELS = ['price', 'quick-market'] as const
export type AssetChannel = (typeof ASSET_CHANNELS)[number]

/** What a client asks for, checked. */
export type Wanted =
  | {
      readonly channel: 'book'
      readonly marketId: MarketId
      readonly outcome: Outcome
      readonly maxHz?: Hz
    }
  | { readonly channel: 'trades'; readonly marketId: MarketId }
  | { readonly channel: 'orders'; readonly trader: Address }
  | { readonly channel: 'funds'; readonly trader: Address; readonly chainId: number }
  | { readonly channel: 'market'; readonly marketId?: MarketId }
  | { readonly channel: 'ticker'; readonly marketIds?: readonly MarketId[] }
  | { readonly channel: AssetChannel; readonly asset: string }

export type BookFeed<M> = {
  readonly kind: 'book'
  readonly topic: Topic<M>
  readonly of: MarketFeed<M>
  readonly outcome: Outcome
  readonly hz: Hz | undefined
  /** Of a conflated book: the prices that changed since it was last told, and whether all did. */
  readonly changed: readonly [bids: Set<number>, asks: Set<number>]
  all: boolean
  /** The last level of each side that its readers have seen. */
  edges: Edges
}
type TradesFeed<M> = {
  readonly kind: 'trades'
  readonly topic: Topic<M>
  readonly of: MarketFeed<M>
}
export type OneMarketFeed<M> = {
  readonly kind: 'market'
  readonly topic: Topic<M>
  readonly of: MarketFeed<M>
}
export type AllMarketsFeed<M> = { readonly kind: 'markets'; readonly topic: Topic<M> }
export type OrdersFeed<M> = {
  readonly kind: 'orders'
  readonly topic: Topic<M>
  readonly trader: Address
}
export type FundsFeed<M> = {
  readonly kind: 'funds'
  readonly topic: Topic<M>
  readonly trader: Address
  readonly chainId: number
}
export type TickerFeed<M> = {
  readonly kind: 'ticker'
  readonly topic: Topic<M>
  /** Left out for all markets. */
  readonly marketIds: readonly MarketId[] | undefined
  /** When the figures of its markets were last asked for, and whether they are being asked for. */
  preparedAtMs: number
  preparing: boolean
  /** The last snapshot of all markets, shared by clients that subscribe at the same time. */
  written:
    | {
        readonly last: number
        readonly reset: boolean
        readonly atMs: number
        readonly text: string
      }
    | undefined
}
export type AssetFeed<M> = {
  readonly kind: AssetChannel
  readonly topic: Topic<M>
  readonly asset: string
}

/** Chained by the sequence of its market. */
type SequencedFeed<M> = BookFeed<M> | TradesFeed<M>
/** Chained by a count of its own, which clients see as a cursor. */
export type CountedFeed<M> =
  | OneMarketFeed<M>
  | AllMarketsFeed<M>
  | OrdersFeed<M>
  | FundsFeed<M>
  | TickerFeed<M>
  | AssetFeed<M>
export type Feed<M> = SequencedFeed<M> | CountedFeed<M>

export function isSequenced<M>(feed: Feed<M>): feed is SequencedFeed<M> {
  return feed.kind === 'book' || feed.kind === 'trades'
}

/** The markets whose trading a feed tells of. That markets open and close is told without that. */
export function marketsOf<M>(feed: Feed<M>): 'all' | readonly MarketId[] {
  switch (feed.kind) {
    case 'book':
    case 'trades':
    case 'market':
      return [feed.of.shown.market.id]
    case 'ticker':
      return feed.marketIds ?? 'all'
    case 'orders':
      return 'all'
    default:
      return []
  }
}

/** The last change of each chain of a market, and the topics of it that have a follower. */
export type MarketFeed<M> = {
  readonly shown: ShownMarket
  readonly bookSeq: [Sequence, Sequence]
  tradesSeq: Sequence
  readonly books: readonly [Set<BookFeed<M>>, Set<BookFeed<M>>]
  trades: TradesFeed<M> | undefined
  market: OneMarketFeed<M> | undefined
}
