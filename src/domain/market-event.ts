/**
 * Events of a market, as plain JSON data. They alone define the market's state: the log stores them, recovery replays
 * them, and the database and the stream are derived from them.
 *
 * The events of a market have consecutive numbers (`seq`), without gaps. A reader can compute the size that rests at
 * each price from the events alone, without the orders:
 * - `OrderRested` adds `added`.
 * - `OrdersMatched` subtracts the `size` of each fill from the book in which the maker rests. For an ordinary fill,
 *   this is the other side of the taker's outcome. For a mint or merge, it is the taker's side of the other outcome.
 * - `OrderClosed` subtracts `remaining`.
 * - `MarketClosed` clears both books.
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
 * Emitted when an order or its remainder starts to rest, or when its `held` or `kept` changes.
 * - `order`: the whole order. Present only if no earlier event contains it: the order is new and did not match on
 *   arrival.
 * - `returned`: true if the quantity comes from a failed trade that returned it to the order. `permit` is then the
 *   nonce of the order's permit.
 * - `added`: the quantity that starts to rest. It is less than `remaining` if a part of the order already rested. It is
 *   0 if only `held` or `kept` changes.
 * - `held`: the session whose end cancels the order. `kept`: true if the end of a session no longer cancels the order.
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
   * True if an earlier event contains the taker's order. This happens if one match needs several events. It also
   * happens if a failed trade returned quantity to the order, and the order matches again.
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
 * Emitted when an order leaves the book, or ends on arrival without resting. Reason `taken`: an IOC or FOK order was
 * filled completely on arrival. If one of its trades fails later, no quantity returns to the book, because such an
 * order never rests.
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
   * For a cancelled order: the quantity that is matched but not settled. If the trades of this quantity fail, the
   * quantity does not return to the book.
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
   * Side that the chain holds at fault, but the market does not. The market excuses a side that lacked shares only
   * because the earlier trade in which it bought these shares is still pending or has failed.
   */
  readonly excused?: ExcusedSide
}
/** Sides that the market excuses. The buyer is possible only in a merge, where the buyer delivers shares. */
export type ExcusedSide = 'seller' | 'buyer' | 'both'

/** A reorg removed the transaction that had confirmed the trade. */
type TradeReverted = Head<'TradeReverted'> & {
  readonly tradeId: TradeId
  readonly txHash: string
  readonly reason: string
  /** Traders and size of the trade, which is pending again; absent from events in older logs. */
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
  /**
   * Only for a mint: the limit price of the recorded seller's order. In a mint this order buys the other outcome, so
   * the recorded seller pays too.
   */
  readonly sellPrice?: Price
  readonly buyer: Address
  readonly seller: Address
  readonly buyHash: OrderHash
  readonly sellHash: OrderHash
}

export type TradeOutcome = TradeSubmitted | TradeConfirmed | TradeFailed | TradeReverted

/**
 * Event that opens or closes a market. A front can mark a partition (a group of markets) as idle. The front then
 * receives no other events of the markets in this partition.
 */
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
