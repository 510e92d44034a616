/** Messages to a market, and its answers. */

import type { RestingOrder } from '#book/order-record.ts'
import type { Address, MarketId, OrderHash, Sequence, TradeId } from '#domain/ids.ts'
import type { CloseReason, Market } from '#domain/market.ts'
import type { Shares } from '#domain/money.ts'
import type { Outcome, Side, VerifiedOrder } from '#domain/order.ts'
import type { CancelCause, EchoedTags, OrderTags } from '#domain/order-tags.ts'
import type { Rejection } from '#domain/rejection.ts'
import type { TimeInForce } from '#domain/time-in-force.ts'
import type { FaultySide, TradeStatus } from '#domain/trade.ts'
import type { TraderPause } from '#domain/trader-pauses.ts'

export type OrderAccepted = {
  readonly orderHash: OrderHash
  readonly status: 'accepted'
  readonly matches: number
  /** Unix seconds. */
  readonly timestamp: number
  readonly duplicate?: true
  /** For IOC and FOK orders: the filled size; the rest is cancelled. */
  readonly filled?: number
}

/** The market's answer to an order, with the order's label and group, as a front sends it to the client. */
export type EnteredOrder = OrderAccepted & EchoedTags

/**
 * The market's first answer to an order, returned by `RecallOrder`. `left` is set only if the order is closed. It is
 * `pending` if a trade of the order is not settled, so that the trade's quantity may return to the book. It is
 * `nothing` if the order has no unsettled trade.
 */
export type RecalledOrder = OrderAccepted & { readonly left?: 'pending' | 'nothing' }

export type OrderCancelled = {
  readonly status: 'cancelled'
  readonly orderHash: OrderHash
  /** Matched size whose trades are not settled yet. If such a trade fails, its size does not return to the book. */
  readonly pendingSize?: number
}

/** Size of a cancelled order's unsettled trades, in the answer to a request that cancels several orders. */
export type PendingOfOrder = { readonly orderHash: OrderHash; readonly pendingSize: number }

export type OpenOrder = RestingOrder &
  EchoedTags & { readonly marketId: MarketId; readonly outcome: Outcome }

/** `[price, size]`; the size may exceed the safe integers. */
export type LevelView = readonly [price: number, size: bigint]

/** The state of a market for its followers: it includes everything up to and including `seq`. */
export type MarketView = {
  readonly market: Market
  readonly seq: Sequence
  readonly closed: CloseReason | undefined
  readonly updatedAtMs: number
  /** Price levels of each side, best first, by outcome. */
  readonly bids: readonly [readonly LevelView[], readonly LevelView[]]
  readonly asks: readonly [readonly LevelView[], readonly LevelView[]]
}

/** On-chain result of a trade, with the two signed orders. */
export type TradeReport = {
  readonly tradeId: TradeId
  /** A report with `matched` changes nothing; it only requests the current status of the trade. */
  readonly status: TradeStatus
  readonly txHash: string
  readonly reason: string
  readonly fault: FaultySide
  readonly size: Shares
  readonly buy: VerifiedOrder
  readonly sell: VerifiedOrder
}

/** A signed order, and its unsigned options from the client. */
export type PlacedOrder = {
  order: VerifiedOrder
  requestId?: string
  /** The order's session. When the session ends, the order is cancelled (`session-orders.ts`). */
  session?: string
  timeInForce?: TimeInForce
  tags?: OrderTags
  /** Unix milliseconds after which the market refuses the order. */
  bookByMs?: number
  /**
   * Time for which the order's funds are reserved, in milliseconds after the message was sent. If a new order reaches
   * its market after this time, it is refused.
   */
  reservedMs?: number
  /** The end of `reservedMs` on the monotonic clock of the receiving process. This field is not sent. */
  reservedUntilMs?: number
  /** Another order of the trader, which is cancelled in the same step. */
  replaces?: OrderHash
  /** Places the order even if the order to be replaced is no longer open. */
  replaceMode?: 'always'
  /** The `traceparent` of a sampled request. */
  trace?: string
}

export type MarketProtocol = {
  OpenMarket: { takes: { market: Market }; answers: { seq: Sequence } | Rejection }
  /** `requestId` identifies the request in the logs of every thread. */
  PlaceOrder: { takes: PlacedOrder; answers: OrderAccepted | Rejection }
  /**
   * Places several orders of one market in one step: first the orders to be replaced are cancelled, then the new ones
   * are placed one by one. The answers are in the order of `orders`.
   */
  PlaceOrders: {
    takes: { marketId: MarketId; orders: readonly PlacedOrder[] }
    answers: { answers: readonly (OrderAccepted | Rejection)[] } | Rejection
  }
  CancelOrder: {
    /** `trader` limits the cancel to an order of this trader; undefined means any trader. */
    takes: {
      marketId: MarketId
      orderHash: OrderHash
      side: Side
      trader?: Address
      requestId?: string
    }
    answers: OrderCancelled | Rejection
  }
  /** Keeps the order when its session ends. */
  KeepOrder: { takes: { marketId: MarketId; orderHash: OrderHash }; answers: undefined | Rejection }
  /**
   * Returns the market's first answer to an order. A front requests it before it refuses an order: if the market
   * accepted the order earlier, the client gets that answer again.
   */
  RecallOrder: {
    takes: { marketId: MarketId; orderHash: OrderHash; outcome: Outcome }
    answers: RecalledOrder | Rejection | { readonly unknown: true }
  }
  CancelOrders: {
    /**
     * Without `reason`, the orders close as `cancelled`. One step cancels a limited number of orders; `more` is true if
     * further orders are left.
     */
    takes: {
      marketId: MarketId
      trader: Address
      orderHashes?: readonly OrderHash[]
      /** Limits the cancel to the trader's orders of this group. */
      group?: string
      reason?: 'unfunded'
      /** Set if no client requested this cancel. */
      cause?: CancelCause
      limit?: number
    }
    /** `pending` lists cancelled orders with unsettled trades. */
    answers:
      | {
          orderHashes: OrderHash[]
          pending: PendingOfOrder[]
          more?: true
        }
      | Rejection
  }
  CloseMarket: {
    takes: { marketId: MarketId; reason: CloseReason }
    answers: { seq: Sequence } | Rejection
  }
  /** Removes expired orders up to a limit; sent by the thread's timer. */
  Expire: { takes: { marketId: MarketId; ordersMax?: number }; answers: undefined }
  Snapshot: { takes: { marketId: MarketId }; answers: MarketView | Rejection }
  ReportTrade: {
    /** `epoch` is the epoch of the settlement's lease, if several nodes may settle the chain. */
    takes: { marketId: MarketId; report: TradeReport; epoch?: number }
    /** `paused`: pauses (times without new orders) of the trade's two traders, if any. */
    answers: { status: TradeStatus; paused?: TraderPause[] } | Rejection
  }
}
