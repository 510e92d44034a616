/**
 * Types of feeds. A feed is a topic together with the market, trader or asset that it is about. Book and trade feeds
 * cover one market's log, and use its sequence numbers as positions. Other feeds cover several markets, or events that
 * are not in a market's log. So their topics count their own positions.
 */

import type { Address, MarketId, Sequence } from '#domain/ids.ts'
import type { Outcome } from '#domain/order.ts'
import type { ShownMarket } from '#live/market-board.ts'
import type { Edges } from './book-window.ts'
import type { Topic } from './topic.ts'

/** Rates of conflated books, in messages per second. Each rate has its own topic. */
export const CONFLATED_HZ = [1, 5, 10, 20] as const
export type Hz = (typeof CONFLATED_HZ)[number]

const ASSET_CHANNELS = ['price', 'quick-market'] as const
export type AssetChannel = (typeof ASSET_CHANNELS)[number]

/** An event and its markets, as stored in the database. */
export type EventMarkets = {
  readonly slug: string
  readonly chainId: number
  readonly marketIds: readonly MarketId[]
}

/** A validated subscription request. */
export type Wanted =
  | {
      readonly channel: 'book'
      readonly marketId: MarketId
      readonly outcome: Outcome
      readonly maxHz?: Hz
      readonly implied?: true
    }
  | { readonly channel: 'trades'; readonly marketId: MarketId }
  | { readonly channel: 'orders'; readonly trader: Address }
  | { readonly channel: 'funds'; readonly trader: Address; readonly chainId: number }
  | { readonly channel: 'market'; readonly marketId?: MarketId }
  | {
      readonly channel: 'ticker'
      readonly marketIds?: readonly MarketId[]
      readonly event?: { readonly slug: string; readonly chainId?: number }
    }
  | { readonly channel: AssetChannel; readonly asset: string }

export type BookFeed<M> = {
  readonly kind: 'book'
  readonly topic: Topic<M>
  readonly of: MarketFeed<M>
  readonly outcome: Outcome
  readonly hz: Hz | undefined
  /** True for a book with the levels implied by the other outcome. */
  readonly implied: boolean
  /** Prices of a conflated book that changed since its last message; `all` is true if all prices may have changed. */
  readonly changed: readonly [bids: Set<number>, asks: Set<number>]
  all: boolean
  /** Worst price of each side in the subscribers' copies of the book. */
  edges: Edges
}
export type TradesFeed<M> = {
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
  /** The markets of the feed; undefined for all. The list grows when a market joins the feed's event. */
  marketIds: readonly MarketId[] | undefined
  /**
   * `preparedAtMs`: time at which the last load of the figures of the feed's markets ended. `preparing`: true while a
   * load is in progress.
   */
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

/** Feeds whose positions are the sequence numbers of their market. */
type SequencedFeed<M> = BookFeed<M> | TradesFeed<M>
/** Feeds whose positions are the topic's own count, which clients see as a cursor. */
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

/**
 * Returns the markets whose events the front must follow for a feed. The feed with the openings and closings of all
 * markets needs no market, because the front always receives these events.
 */
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

/**
 * The existing feeds of a market. `bookSeq` has the sequence number of the last change of each outcome's book.
 * `tradesSeq` is the sequence number of the last change of the trades. Both are kept even if no feed exists.
 */
export type MarketFeed<M> = {
  readonly shown: ShownMarket
  readonly bookSeq: [Sequence, Sequence]
  tradesSeq: Sequence
  readonly books: readonly [Set<BookFeed<M>>, Set<BookFeed<M>>]
  /** Books with implied levels: a change of either outcome changes each of them. */
  readonly implied: Set<BookFeed<M>>
  trades: TradesFeed<M> | undefined
  market: OneMarketFeed<M> | undefined
}
