/** Types of stream messages that the SDK converts; all other messages have the types of `protocol/shapes`. */

import type { QuickMarket } from '#protocol/shapes/prices.ts'
import type {
  BookFrame,
  FundsMessage,
  MarketMessage,
  OrdersMessage,
  PriceMessage,
  QuickMarketMessage,
  TickerMessage,
  TradesMessage,
} from '#protocol/shapes/stream.ts'
import type { LevelPair } from './local-book.ts'

/** Sizes beyond 2^53 are parsed as text. */
type WithExactLevels<Frame> = Frame extends unknown
  ? Omit<Frame, 'bids' | 'asks'> & {
      readonly bids: readonly LevelPair[]
      readonly asks: readonly LevelPair[]
    }
  : never

export type BookMessage = WithExactLevels<BookFrame>

export type StreamQuickMarket = QuickMarket

export type ChannelMessage =
  | BookMessage
  | TradesMessage
  | OrdersMessage
  | FundsMessage
  | MarketMessage
  | TickerMessage
  | PriceMessage
  | QuickMarketMessage

/** Position in a sequence of messages: a market's sequence number, or an opaque cursor. */
export type Position = number | string

export function positionOf(message: ChannelMessage): Position {
  return 'cursor' in message ? message.cursor : message.seq
}

/** Returns the position of the previous message; undefined for a snapshot, which has no previous position. */
export function previousOf(message: ChannelMessage): Position | undefined {
  if ('prevCursor' in message) return message.prevCursor
  return 'prevSeq' in message ? message.prevSeq : undefined
}
