/** The events of the public log, as docs/transparency.md describes them. */

import type { Address, MarketId, OrderHash, TradeId } from '#domain/ids.ts'
import type { CloseReason, Market } from '#domain/market.ts'
import type { ExcusedSide, Fill, OrderCloseReason } from '#domain/market-event.ts'
import type { Price, Shares } from '#domain/money.ts'
import type { Order, Outcome, Side } from '#domain/order.ts'
import type { CancelCause } from '#domain/order-tags.ts'
import type { TimeInForce } from '#domain/time-in-force.ts'
import type { FaultySide } from '#domain/trade.ts'

/** An order in the public log. Instead of the order's signature and permit, it contains their hashes. */
export type PublicOrder = Order & {
  readonly orderHash: OrderHash
  readonly signatureHash: string
  readonly permitHash?: string
  /**
   * Conditions of the order: time in force, latest time of placement, and the order that it replaces. A condition that
   * was not set is absent. Only the order's first event contains conditions. Logs of earlier versions contain none.
   */
  readonly timeInForce?: TimeInForce
  readonly bookByMs?: number
  readonly replaces?: OrderHash
}

type Head<Type extends string> = {
  readonly type: Type
  /** Number of the event in its partition, from 1. */
  readonly offset: number
  readonly marketId: MarketId
  readonly seq: number
  readonly atMs: number
}

/** Terms of an order. Later events about the order repeat them. */
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
    /** The whole order; present only in the order's first event. */
    readonly order?: PublicOrder
    readonly returned?: true
  }

export type PublicMatched = Head<'OrdersMatched'> & {
  readonly taker: PublicOrder
  readonly takerRemaining: number
  readonly fills: readonly Fill[]
  /** True if an earlier event already contains the taker's order. */
  readonly known?: true
}

export type PublicClosed = Head<'OrderClosed'> &
  OrderTerms &
  Life & {
    readonly reason: OrderCloseReason
    /** Reason why the market cancelled an order that its trader did not cancel. */
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
