/** What a market hears, says and remembers. */

import type { Book } from '#book/book.ts'
import type { SelfTrade } from '#book/match.ts'
import type { RestingOrder } from '#book/order-record.ts'
import type { Address, MarketId, OrderHash, Sequence, TradeId } from '#domain/ids.ts'
import type { CloseReason, Market } from '#domain/market.ts'
import type { Shares } from '#domain/money.ts'
import type { Outcome, Side, VerifiedOrder } from '#domain/order.ts'
import type { Rejection } from '#domain/rejection.ts'
import type { FaultySide, TradeStatus } from '#domain/trade.ts'
import type { ClosedOrder, TradeState } from '#log/event-log.ts'

export type OrderAccepted = {
  readonly orderHash: OrderHash
  readonly status: 'accepted'
  readonly matches: number
  /** Unix seconds. */
  readonly timestamp: number
  readonly duplicate?: true
}

export type OrderCancelled = { readonly status: 'cancelled'; readonly orderHash: OrderHash }

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
  readonly status: Exclude<TradeStatus, 'matched'>
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
    /** An order with a `session` is cancelled when that ends: `order-holds.ts` keeps it in mind. */
    takes: { order: VerifiedOrder; requestId?: string; session?: string }
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
  CancelOrders: {
    /** A trader may have more orders than one step takes out: `more` says to ask again. */
    takes: {
      marketId: MarketId
      trader: Address
      orderHashes?: readonly OrderHash[]
      limit?: number
    }
    answers: { orderHashes: OrderHash[]; more?: true } | Rejection
  }
  CloseMarket: {
    takes: { marketId: MarketId; reason: CloseReason }
    answers: { seq: Sequence } | Rejection
  }
  /** Removes what has expired, at most so many of it; the thread's timer sends it. */
  Expire: { takes: { marketId: MarketId; ordersMax?: number }; answers: undefined }
  Snapshot: { takes: { marketId: MarketId }; answers: MarketView | Rejection }
  ReportTrade: {
    takes: { marketId: MarketId; report: TradeReport }
    answers: { status: TradeStatus } | Rejection
  }
}

/**
 * What is known about the hashes and trades of the batch under way: what the partition's file says
 * of them, and on top of it what the batch itself has made of them so far.
 */
export type Recall = {
  readonly closed: Map<OrderHash, ClosedOrder>
  readonly trades: Map<TradeId, TradeState>
}

export type MarketState = {
  readonly market: Market
  readonly books: readonly [yes: Book, no: Book]
  seq: Sequence
  closed: CloseReason | undefined
  updatedAtMs: number
  /** Trades that the chain has neither confirmed nor refused. */
  unsettled: number
  readonly rules: MarketRules
  readonly recall: Recall
}

export type MarketRules = {
  readonly selfTrade: SelfTrade
  /** Orders that may rest in both books together. */
  readonly ordersMax: number
  /** Chains whose settlement is behind: their markets take cancels only. */
  readonly behind?: Pick<ReadonlySet<number>, 'has'>
  /** Keeps traders from choosing hashes that collide in the books' indices. */
  readonly seed: number
}
