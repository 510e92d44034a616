/**
 * Events of a market. They alone define its state: the log stores them, recovery replays them, the database and the
 * stream are derived from them. They are plain JSON data.
 *
 * Each event has the next number of its market's gapless `seq`. The size resting at a price follows from the events
 * alone, without knowing any order: `OrderRested` adds `added`, a fill of `OrdersMatched` takes `size` from the side
 * opposite to its taker (a mint or a merge from the taker's side of the other outcome), `OrderClosed` takes
 * `remaining`, `MarketClosed` clears both books.
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
  /** The market's clock at the event; it never goes back. */
  readonly atMs: number
}

type MarketOpened = Head<'MarketOpened'> & { readonly market: Market }

/** Conditions under which a client placed an order. They are not signed, and events in older logs lack them. */
export type PlacementTerms = {
  readonly timeInForce?: TimeInForce
  /** Latest time of the order's first event, in Unix milliseconds. */
  readonly bookByMs?: number
  /** The order that this one replaced: it was cancelled in the same step. */
  readonly replaces?: OrderHash
}

/**
 * An order, or its remainder, starts to rest.
 * - `order`: present if no earlier event contains the order: a new order that did not match at once.
 * - `returned`: the quantity was returned by a failed trade. `permit` is then the nonce of the order's permit.
 * - `added`: less than `remaining` if the order was still resting; 0 if only `held` or `kept` changes.
 * - `held`: the session that the order ends with. `kept`: from now on the order ends with no session.
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
  /** Number of counter-orders that the order matched when placed, for its first answer. */
  readonly matches: number
  readonly order?: VerifiedOrder
  readonly returned?: true
  readonly permit?: Uint64
  readonly held?: string
  readonly kept?: true
  /** The order's tags, if it has any. */
  readonly tags?: OrderTags
  /** Present only in the first event of an order. */
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
  /** Set if the maker rests in the other outcome's book: both buy, or both sell. Absent: an ordinary fill. */
  readonly kind?: FillKind
}

/** A new order matches resting ones. Its fills are in matching order; their index is part of the trade id. */
export type OrdersMatched = Head<'OrdersMatched'> & {
  readonly taker: VerifiedOrder
  readonly takerRemaining: number
  readonly fills: readonly Fill[]
  /** True if an earlier event contains the taker: an order that continues to match, or whose quantity returned. */
  readonly known?: true
  /** The session that the taker's remainder ends with. */
  readonly held?: string
  readonly takerTags?: OrderTags
  /** Present only in the first event of an order. */
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
 * An order leaves the book, or was filled on arrival. `taken`: an order that had to be filled immediately, and was. It
 * never rests, so no quantity returns if one of its trades fails.
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
  /** For a cancelled order: its matched but unsettled quantity, which does not return. */
  readonly pending?: number
  readonly tags?: EchoedTags
  /** Set if the market cancelled the order by itself. */
  readonly cause?: CancelCause
}

/** The market accepts no more orders; every resting order ends with it. */
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
   * Set if this side lacked only shares that another failed trade should have delivered to it, so the fault does not
   * count.
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
  /** The trade that is pending again; events in older logs lack it. */
  readonly trade?: PendingTrade
}

/** Traders and size of a pending trade. */
export type PendingTrade = {
  /** The side that pays for the settlement from its budget, if known. */
  readonly payer?: 'buyer' | 'seller'
  readonly outcome: Outcome
  readonly size: Shares
  /** The buyer's limit; older snapshots and logs lack it. */
  readonly price?: Price
  /** Absent: an ordinary trade. */
  readonly kind?: FillKind
  /** In a mint, the limit of the seller, who buys the other outcome and pays too. */
  readonly sellPrice?: Price
  readonly buyer: Address
  readonly seller: Address
  readonly buyHash: OrderHash
  readonly sellHash: OrderHash
}

export type TradeOutcome = TradeSubmitted | TradeConfirmed | TradeFailed | TradeReverted

/** The events of a market that even idle followers receive: its opening and its closing. */
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
