/** Messages to a market, and its answers. */

import type { RestingOrder } from '#book/order-record.ts'
import type { Address, MarketId, OrderHash, Sequence, TradeId } from '#domain/ids.ts'
import type { CloseReason, Market } from '#domain/market.ts'
import type { Shares } from '#domain/money.ts'
import type { Outcome, Side, TimeInForce, VerifiedOrder } from '#domain/order.ts'
import type { Rejection } from '#domain/rejection.ts'
import type { FaultySide, TradeStatus } from '#domain/trade.ts'
import type { TraderPause } from '#domain/trader-pauses.ts'

export type OrderAccepted = {
  readonly orderHash: OrderHash
  readonly status: 'accepted'
  readonly matches: number
  /** Unix seconds. */
  readonly timestamp: number
  readonly duplicate?: true
  /** Of an order that was to be filled at once: how much of it was; the rest is cancelled. */
  readonly filled?: number
}

/** `left` of one that is filled: whether something of it may come back, because a trade is not settled. */
export type RecalledOrder = OrderAccepted & { readonly left?: 'pending' | 'nothing' }

export type OrderCancelled = {
  readonly status: 'cancelled'
  readonly orderHash: OrderHash
  /** What is matched and not settled, if anything is: it may still settle, and never comes back. */
  readonly pendingSize?: number
}

/** What is still pending of an order that was cancelled with others. */
export type PendingOfOrder = { readonly orderHash: OrderHash; readonly pendingSize: number }

export type OpenOrder = RestingOrder & { readonly marketId: MarketId; readonly outcome: Outcome }

/** `[price, size]`; a size may exceed what a number holds exactly. */
export type LevelView = readonly [price: number, size: bigint]

/** A market as a reader sees it: everything up to and with `seq`. */
export type MarketView = {
  readonly market: Market
  readonly seq: Sequence
  readonly closed: CloseReason | undefined
  readonly updatedAtMs: number
  /** Per outcome: the levels of each side, best first. */
  readonly bids: readonly [readonly LevelView[], readonly LevelView[]]
  readonly asks: readonly [readonly LevelView[], readonly LevelView[]]
}

/** What became of a trade on chain, with the orders as they were signed. */
export type TradeReport = {
  readonly tradeId: TradeId
  /** `matched` changes nothing: it asks what is known of the trade. */
  readonly status: TradeStatus
  readonly txHash: string
  readonly reason: string
  readonly fault: FaultySide
  readonly size: Shares
  readonly buy: VerifiedOrder
  readonly sell: VerifiedOrder
}

export type MarketProtocol = {
  OpenMarket: { takes: { market: Market }; answers: { seq: Sequence } | Rejection }
  /** `requestId` is whose request it was, for the logs of every thread on its way. */
  PlaceOrder: {
    /** An order with a `session` is cancelled when that ends: `order-holds.ts` and the log keep it in mind. */
    takes: { order: VerifiedOrder; requestId?: string; session?: string; timeInForce?: TimeInForce }
    answers: OrderAccepted | Rejection
  }
  CancelOrder: {
    /** `trader` is whose orders the caller may cancel; all orders when it is left out. */
    takes: {
      marketId: MarketId
      orderHash: OrderHash
      side: Side
      trader?: Address
      requestId?: string
    }
    answers: OrderCancelled | Rejection
  }
  /** The order stays when its session ends: that was not meant to hold it any more. */
  KeepOrder: { takes: { marketId: MarketId; orderHash: OrderHash }; answers: undefined | Rejection }
  /** What an order was answered when it was first seen, for one that is to be refused if it is new. */
  RecallOrder: {
    takes: { marketId: MarketId; orderHash: OrderHash; outcome: Outcome }
    answers: RecalledOrder | Rejection | { readonly unknown: true }
  }
  CancelOrders: {
    /**
     * Without a reason it is the trader's own wish; `isFault` makes him pause if he had any. A trader may
     * have more orders than one step takes out: `more` says to ask again.
     */
    takes: {
      marketId: MarketId
      trader: Address
      orderHashes?: readonly OrderHash[]
      reason?: 'unfunded'
      isFault?: true
      limit?: number
    }
    /** `pending` has those of them that have trades which are not settled; `paused` is his pause then. */
    answers:
      | {
          orderHashes: OrderHash[]
          pending: PendingOfOrder[]
          more?: true
          paused?: TraderPause[]
        }
      | Rejection
  }
  CloseMarket: {
    takes: { marketId: MarketId; reason: CloseReason }
    answers: { seq: Sequence } | Rejection
  }
  /** Removes what has expired, at most so many of it; the thread's timer sends it. */
  Expire: { takes: { marketId: MarketId; ordersMax?: number }; answers: undefined }
  Snapshot: { takes: { marketId: MarketId }; answers: MarketView | Rejection }
  ReportTrade: {
    /** `epoch` is that of the lease of whoever settles the chain, where others may too. */
    takes: { marketId: MarketId; report: TradeReport; epoch?: number }
    /** `paused` are the pauses of its two traders, where they have any. */
    answers: { status: TradeStatus; paused?: TraderPause[] } | Rejection
  }
}
