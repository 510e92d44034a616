/**
 * Events of a market. They alone define its state: the log stores them, recovery replays them, and the database and the
 * stream are derived from them. Events are plain JSON data.
 *
 * Each event has the next number of its market's gapless `seq`. The size resting at a price can be computed from the
 * events alone, without the orders. `OrderRested` adds `added`. A fill of `OrdersMatched` removes `size` from the side
 * opposite to the taker's side. A mint or a merge removes `size` from the taker's side of the other outcome's book.
 * `OrderClosed` removes `remaining`. `MarketClosed` clears both books.
 */

import type { Address, MarketId, OrderHash, Sequence, TradeId, Uint64 } from './ids.ts'
import type { CloseReason, Market } from './market.ts'
import type { Price, Shares } from './money.ts'
import type { Outcome, Side, VerifiedOrder } from './order.ts'
import type { CancelCause, EchoedTags, OrderTags } from './order-tags.ts'
import type { TimeInForce } from './time-in-force.ts'
import type { FaultySide, FillKind } from './trade.ts'

type Head<Type extends string> = {
  readonly type: Type
  readonly marketId: MarketId
  readonly seq: Sequence
  /** Time of the event by the market's clock, in Unix milliseconds. The clock never goes back. */
  readonly atMs: number
}

type MarketOpened = Head<'MarketOpened'> & { readonly market: Market }

/** Conditions under which a client placed an order. They are not signed, and are absent from events in older logs. */
export type PlacementTerms = {
  readonly timeInForce?: TimeInForce
  /** Deadline in Unix milliseconds: if the market receives the order later, it rejects the order. */
  readonly bookByMs?: number
  /** Hash of the order that this order replaced. The market cancelled the replaced order in the same step. */
  readonly replaces?: OrderHash
}

/**
 * An order, or its remainder, starts to rest, or its `held` or `kept` changes.
 * - `order`: present if no earlier event contains the order: a new order that did not match at once.
 * - `returned`: the quantity was returned by a failed trade. `permit` is then the nonce of the order's
 *   permit.
 * - `added`: the quantity that starts to rest. It is less than `remaining` if the order was still resting,
 *   and 0 if only `held` or `kept` changes.
 * - `held`: the session whose end cancels the order. `kept`: from now on, no session's end cancels the order.
 */
export type OrderRested = Head<'OrderRested'> & {
  readonly orderHash: OrderHash
  readonly trader: Address
  readonly side: Side
  readonly outcome: Outcome
  readonly price: Price
  readonly size: Shares
  readonly added: Shares
  readonly remaining: Shares
  readonly expiresAtSec: number
  readonly placedAtMs: number
  /**
   * Number of counter-orders that the order matched when it was placed. If the client sends the order again,
   * the answer repeats this number.
   */
  readonly matches: number
  readonly order?: VerifiedOrder
  readonly returned?: true
  readonly permit?: Uint64
  readonly held?: string
  readonly kept?: true
  /** The order's tags, if it has any. */
  readonly tags?: OrderTags
  /** Terms of the order's placement; present only in its first event. */
  readonly terms?: PlacementTerms
}

export type Fill = {
  readonly makerHash: OrderHash
  readonly maker: Address
  /** The maker's price, which is the price of the trade. In a mint or merge it is the price of the maker's outcome. */
  readonly price: Price
  readonly size: Shares
  readonly makerRemaining: number
  readonly makerTags?: EchoedTags
  /**
   * Mint or merge, if the maker rests in the book of the other outcome. Maker and taker then both buy, or both sell.
   * Absent for an ordinary fill.
   */
  readonly kind?: FillKind
}

/** A taker matches resting orders. The fills are in matching order; the index of a fill is part of its trade id. */
export type OrdersMatched = Head<'OrdersMatched'> & {
  readonly taker: VerifiedOrder
  readonly takerRemaining: number
  readonly fills: readonly Fill[]
  /**
   * True if an earlier event contains the taker's order. The order then continues to match, or a failed trade has
   * returned quantity to it.
   */
  readonly known?: true
  /** Session whose end cancels the taker's remainder. */
  readonly held?: string
  readonly takerTags?: OrderTags
  /** Terms of the order's placement; present only in its first event. */
  readonly terms?: PlacementTerms
}

export const ORDER_CLOSE_REASONS = [
  'filled',
  'cancelled',
  'expired',
  'unfunded',
  'self-trade',
  'taken',
] as const
export type OrderCloseReason = (typeof ORDER_CLOSE_REASONS)[number]

/**
 * An order leaves the book, or ends on arrival without resting. Reason `taken`: an IOC or FOK order was
 * filled completely on arrival. Such an order never rests, so no quantity returns if one of its trades fails.
 */
export type OrderClosed = Head<'OrderClosed'> & {
  readonly orderHash: OrderHash
  readonly trader: Address
  readonly side: Side
  readonly outcome: Outcome
  readonly price: Price
  readonly size: Shares
  readonly reason: OrderCloseReason
  /** Quantity that still rested when the order closed; 0 if it was filled. */
  readonly remaining: number
  readonly expiresAtSec: number
  readonly placedAtMs: number
  readonly matches: number
  /**
   * For a cancelled order: its matched but unsettled quantity. This quantity does not return to the book if its trades
   * fail.
   */
  readonly pending?: number
  readonly tags?: EchoedTags
  /** Set if the market cancelled the order by itself. */
  readonly cause?: CancelCause
}

/** The market accepts no more orders, and every resting order is closed. */
export type MarketClosed = Head<'MarketClosed'> & { readonly reason: CloseReason }

type TradeSubmitted = Head<'TradeSubmitted'> & {
  readonly tradeId: TradeId
  readonly txHash: string
}
type TradeConfirmed = Head<'TradeConfirmed'> & {
  readonly tradeId: TradeId
  readonly txHash: string
}
export type TradeFailed = Head<'TradeFailed'> & {
  readonly tradeId: TradeId
  readonly txHash: string
  readonly reason: string
  /** Side at fault according to the chain. */
  readonly fault: FaultySide
  /**
   * Side whose fault does not count. The side was short of shares only because another trade, which should have
   * delivered them, failed.
   */
  readonly excused?: ExcusedSide
}
/** The buyer can be excused only in a merge, in which both sides deliver shares. */
export type ExcusedSide = 'seller' | 'buyer' | 'both'

/** A reorg removed the transaction that had confirmed the trade. */
type TradeReverted = Head<'TradeReverted'> & {
  readonly tradeId: TradeId
  readonly txHash: string
  readonly reason: string
  /** The trade that is pending again; absent from events in older logs. */
  readonly trade?: PendingTrade
}

/** Traders and size of a pending trade. */
export type PendingTrade = {
  /** The side whose budget pays for the settlement, if known. */
  readonly payer?: 'buyer' | 'seller'
  readonly outcome: Outcome
  readonly size: Shares
  /** The buyer's limit price; absent from older snapshots and logs. */
  readonly price?: Price
  /** Mint or merge; absent for an ordinary trade. */
  readonly kind?: FillKind
  /** Limit price of the seller in a mint. In a mint the seller buys the other outcome, and so pays too. */
  readonly sellPrice?: Price
  readonly buyer: Address
  readonly seller: Address
  readonly buyHash: OrderHash
  readonly sellHash: OrderHash
}

export type TradeOutcome = TradeSubmitted | TradeConfirmed | TradeFailed | TradeReverted

/** Opening and closing of a market: the only events that a front receives while the market's partition is idle. */
export type MarketFact = MarketOpened | MarketClosed

export function isMarketFact(event: MarketEvent): event is MarketFact {
  return event.type === 'MarketOpened' || event.type === 'MarketClosed'
}

export type MarketEvent =
  | MarketOpened
  | OrderRested
  | OrdersMatched
  | OrderClosed
  | MarketClosed
  | TradeOutcome
