/** What the stream tells, as types. */

import type { ShownQuickMarket } from '#domain/quick-market.ts'
import type { Funds, Ticker } from './answers.ts'
import type { LevelPair } from './local-book.ts'

type Of<Type extends string> = { readonly type: Type; readonly sub: string }
type Reset = { readonly reset?: true }
/** The newest changes may be missing. */
type Stale = { readonly stale?: true }
export type OrderStatus = 'accepted' | 'partially_filled' | 'filled' | 'cancelled' | 'expired'

export type BookMessage =
  | (Of<'book.snapshot'> &
      Reset &
      Stale & {
        readonly marketId: string
        readonly outcome: 0 | 1
        readonly seq: number
        readonly bids: readonly LevelPair[]
        readonly asks: readonly LevelPair[]
        readonly checksum: number
        readonly ts: number
      })
  | (Of<'book.delta'> & {
      readonly marketId: string
      readonly outcome: 0 | 1
      readonly seq: number
      readonly prevSeq: number
      readonly bids: readonly LevelPair[]
      readonly asks: readonly LevelPair[]
      readonly checksum: number
      readonly ts: number
    })

type TradeFields = {
  readonly tradeId: string
  readonly price: number
  readonly size: number
  readonly outcome: 0 | 1
  readonly buyer: string
  readonly seller: string
  readonly takerSide: 0 | 1
  readonly ts: number
  readonly seq: number
}

export type TradesMessage =
  | (Of<'trades.snapshot'> &
      Reset &
      Stale & {
        readonly marketId: string
        readonly seq: number
        /** The latest that the exchange has at hand, oldest first; `client.trades` has them all. */
        readonly trades: readonly (TradeFields & {
          readonly status: string
          readonly txHash: string
        })[]
        readonly ts: number
      })
  | (Of<'trade'> &
      TradeFields & {
        readonly marketId: string
        readonly prevSeq: number
        readonly fill: number
        readonly fills: number
        readonly status: 'matched'
      })
  | (Of<'trade.status'> & {
      readonly marketId: string
      readonly tradeId: string
      readonly seq: number
      readonly prevSeq: number
      readonly status: 'submitted' | 'confirmed' | 'failed' | 'reverted'
      readonly txHash: string
      readonly reason: string
      readonly ts: number
    })

export type StreamOrder = {
  readonly orderHash: string
  readonly marketId: string
  readonly side: 0 | 1
  readonly outcome: 0 | 1
  readonly price: number
  readonly size?: number
  readonly status: OrderStatus
  readonly remainingSize: number
  readonly ts: number
}

export type OrdersMessage =
  | (Of<'orders.snapshot'> &
      Reset & {
        readonly trader: string
        readonly cursor: string
        /** The oldest ones; `nextCursor` leads to the others in the list of open orders. */
        readonly orders: readonly StreamOrder[]
        readonly count: number
        readonly nextCursor: string | null
        readonly ts: number
      })
  | (Of<'order'> &
      StreamOrder & {
        readonly seq: number
        readonly cursor: string
        readonly prevCursor: string
        readonly reason?: string
        /** Of a cancelled order: what is matched and not settled, if anything is. */
        readonly pendingSize?: number
      })
  /** All orders that the trader had open in the market ended with it. */
  | (Of<'orders.ended'> & {
      readonly marketId: string
      readonly status: 'expired' | 'cancelled'
      readonly reason: string
      readonly seq: number
      readonly cursor: string
      readonly prevCursor: string
      readonly ts: number
    })

/** What is known with a resolution event. */
export type StreamResolution = {
  readonly assertionId?: string
  readonly proposer?: string
  readonly proposedOutcome?: boolean
  readonly bondAmount?: string
  readonly assertionTime?: number
  readonly expirationTime?: number
  readonly winningOutcome?: 0 | 1
  readonly txHash?: string
  readonly blockNumber?: number
}

type Step = { readonly cursor: string; readonly prevCursor: string }

export type MarketMessage =
  | (Of<'market.snapshot'> &
      Reset &
      Stale & {
        readonly marketId?: string
        readonly state?: 'open' | 'expired' | 'resolved' | 'withdrawn'
        /** The last that the chain told. */
        readonly resolution?: StreamResolution & { readonly event: string; readonly ts: number }
        readonly count?: number
        readonly seq?: number
        readonly cursor: string
        readonly ts: number
      })
  | (Of<'market'> &
      Step & {
        readonly marketId: string
        readonly event: string
        /** Of what the market's own log tells. */
        readonly seq?: number
        /** Of what the chain tells. */
        readonly resolution?: StreamResolution
        readonly ts: number
      })

export type StreamPrice = {
  readonly asset: string
  readonly price: number
  readonly priceUSD: number
  readonly timestamp: number
  readonly source: string
}

export type PriceMessage =
  | (Of<'price.snapshot'> &
      Reset & {
        readonly asset: string
        readonly last: StreamPrice | null
        readonly cursor: string
        readonly ts: number
      })
  | (Of<'price'> & StreamPrice & Step)

export type StreamQuickMarket = ShownQuickMarket

export type QuickMarketMessage =
  | (Of<'quick-market.snapshot'> &
      Reset & {
        readonly asset: string
        readonly quickMarket: StreamQuickMarket | null
        readonly cursor: string
        readonly ts: number
      })
  | (Of<'quick-market'> &
      Step & {
        readonly asset: string
        readonly event: 'opened' | 'resolved'
        readonly quickMarket: StreamQuickMarket
        readonly ts: number
      })

export type TickerMessage =
  /** Those that were named, or the newest open ones; `count` says how many there are in all. */
  | (Of<'ticker.snapshot'> &
      Reset &
      Stale & {
        readonly tickers: readonly StreamTicker[]
        readonly count: number
        readonly cursor: string
        readonly ts: number
      })
  /** Each market that changed, as it is now. */
  | (Of<'ticker'> & Step & { readonly tickers: readonly StreamTicker[]; readonly ts: number })

export type StreamTicker = Ticker & { readonly marketId: string }

/** Each tells all of a trader's funds. */
export type FundsMessage =
  | (Of<'funds.snapshot'> & Reset & Funds & { readonly cursor: string; readonly ts: number })
  | (Of<'funds'> & Funds & Step & { readonly ts: number })

export type ChannelMessage =
  | BookMessage
  | TradesMessage
  | OrdersMessage
  | FundsMessage
  | MarketMessage
  | TickerMessage
  | PriceMessage
  | QuickMarketMessage

/** A position in a chain: a market's sequence number, or an opaque cursor. */
export type Position = number | string

export function positionOf(message: ChannelMessage): Position {
  return 'cursor' in message ? message.cursor : message.seq
}

/** The position before; undefined for a snapshot, which follows nothing. */
export function previousOf(message: ChannelMessage): Position | undefined {
  if ('prevCursor' in message) return message.prevCursor
  return 'prevSeq' in message ? message.prevSeq : undefined
}
