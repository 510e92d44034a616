/** The events of the public log, as docs/transparency.md describes them. */

import type { Address, MarketId, OrderHash, TradeId } from '#domain/ids.ts'
import type { CloseReason, Market } from '#domain/market.ts'
import type { ExcusedSide, Fill, OrderCloseReason } from '#domain/market-event.ts'
import type { Price, Shares } from '#domain/money.ts'
import type { Order, Outcome, Side } from '#domain/order.ts'
import type { CancelCause } from '#domain/order-tags.ts'
import type { TimeInForce } from '#domain/time-in-force.ts'
import type { FaultySide } from '#domain/trade.ts'

/** An order with the hashes of its signature and of its permit. */
export type PublicOrder = Order & {
  readonly orderHash: OrderHash
  readonly signatureHash: string
  readonly permitHash?: string
  /**
   * Conditions of an order, if it is not a plain limit order. Only the first event of an order has them; logs of
   * earlier versions lack them.
   */
  readonly timeInForce?: TimeInForce
  readonly bookByMs?: number
  readonly replaces?: OrderHash
}

type Head<Type extends string> = {
  readonly type: Type
  /** Place in the partition, from 1. */
  readonly offset: number
  readonly marketId: MarketId
  readonly seq: number
  readonly atMs: number
}

/** The terms of an order that an event about it repeats. */
export type OrderTerms = {
  readonly orderHash: OrderHash
  readonly trader: Address
  readonly side: Side
  readonly outcome: Outcome
  readonly price: Price
  readonly size: Shares
}

type Life = {
  readonly remaining: number
  readonly expiresAtSec: number
  readonly placedAtMs: number
  readonly matches: number
}

export type PublicRested = Head<'OrderRested'> &
  OrderTerms &
  Life & {
    readonly added: number
    /** Only in the first event of an order. */
    readonly order?: PublicOrder
    readonly returned?: true
  }

export type PublicMatched = Head<'OrdersMatched'> & {
  readonly taker: PublicOrder
  readonly takerRemaining: number
  readonly fills: readonly Fill[]
  /** True if an earlier event contains the taker. */
  readonly known?: true
}

export type PublicClosed = Head<'OrderClosed'> &
  OrderTerms &
  Life & {
    readonly reason: OrderCloseReason
    /** Why the market cancelled an order that its trader did not cancel. */
    readonly cause?: CancelCause
  }

export type PublicEvent =
  | (Head<'MarketOpened'> & { readonly market: Market })
  | PublicRested
  | PublicMatched
  | PublicClosed
  | (Head<'MarketClosed'> & { readonly reason: CloseReason })
  | (Head<'TradeSubmitted'> & { readonly tradeId: TradeId })
  | (Head<'TradeConfirmed'> & { readonly tradeId: TradeId })
  | (Head<'TradeFailed'> & {
      readonly tradeId: TradeId
      readonly fault: FaultySide
      readonly excused?: ExcusedSide
    })
  | (Head<'TradeReverted'> & { readonly tradeId: TradeId })
