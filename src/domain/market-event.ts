/**
 * What a market says. These events are the only truth about it: the log keeps them, recovery
 * replays them, the database and the stream are derived from them. They are plain JSON data.
 *
 * Each event takes one number of its market's gapless `seq`. The size resting at a price follows
 * from the events alone, without knowing any order: `OrderRested` adds `added`, a fill of
 * `OrdersMatched` takes `size` from the side opposite to its taker, `OrderClosed` takes
 * `remaining`, `MarketClosed` clears both books.
 */

import type { Address, MarketId, OrderHash, Sequence, TradeId, Uint64 } from './ids.ts'
import type { CloseReason, Market } from './market.ts'
import type { Price, Shares } from './money.ts'
import type { Outcome, Side, VerifiedOrder } from './order.ts'
import type { FaultySide } from './trade.ts'

type Head<Type extends string> = {
  readonly type: Type
  readonly marketId: MarketId
  readonly seq: Sequence
  /** The market's clock when it happened; it never goes back. */
  readonly atMs: number
}

type MarketOpened = Head<'MarketOpened'> & { readonly market: Market }

/**
 * An order, or the remainder of one, came to rest. `order` is there when nothing before this event
 * has told of it: a new order that did not match at once. `returned` marks quantity that a failed
 * trade gave back, and `permit` is the nonce of the permit that such an order travels with; `added` is less than `remaining` when
 * its order was still resting. `held` marks an order that ends with the session that placed it, `kept` one
 * that from now on does not; where only that changes of a resting order, `added` is 0.
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
  /** How many counter-orders it matched when it was placed: its first answer. */
  readonly matches: number
  readonly order?: VerifiedOrder
  readonly returned?: true
  readonly permit?: Uint64
  readonly held?: true
  readonly kept?: true
}

export type Fill = {
  readonly makerHash: OrderHash
  readonly maker: Address
  /** The maker's price, which is the trade's price. */
  readonly price: Price
  readonly size: Shares
  readonly makerRemaining: number
}

/** A new order met resting ones. Its fills are in the order of matching; the index names a trade. */
export type OrdersMatched = Head<'OrdersMatched'> & {
  readonly taker: VerifiedOrder
  readonly takerRemaining: number
  readonly fills: readonly Fill[]
  /** An event before this one has told of the taker: it goes on matching, or came back. */
  readonly known?: true
  /** What remains of the taker ends with the session that placed it. */
  readonly held?: true
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
 * An order left the book, or was filled as it came. `taken` is an order that was to be filled at once,
 * and was: it never rests, so nothing of it comes back when a trade of it fails.
 */
export type OrderClosed = Head<'OrderClosed'> & {
  readonly orderHash: OrderHash
  readonly trader: Address
  readonly side: Side
  readonly outcome: Outcome
  readonly price: Price
  readonly size: Shares
  readonly reason: OrderCloseReason
  /** What was still resting; 0 when filled. */
  readonly remaining: number
  readonly expiresAtSec: number
  readonly placedAtMs: number
  readonly matches: number
  /** Of a cancelled order: what is matched and not settled; nothing of it comes back. */
  readonly pending?: number
}

/** The market takes no more orders; every resting order ends with it. */
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
  /** What the chain found. */
  readonly fault: FaultySide
  /** The seller lacked what another owed him: it is not held against him. */
  readonly excused?: 'seller'
}
/** A reorg removed the transaction that had confirmed it. */
type TradeReverted = Head<'TradeReverted'> & {
  readonly tradeId: TradeId
  readonly txHash: string
  readonly reason: string
  /** What is pending again; logs that are older do not tell it. */
  readonly trade?: PendingTrade
}

/** Whose a pending trade is, and how much. */
export type PendingTrade = {
  /** The side whose budget its settlement is charged to, where that is known. */
  readonly payer?: 'buyer' | 'seller'
  readonly outcome: Outcome
  readonly size: Shares
  /** The buyer's limit; older snapshots and logs lack it. */
  readonly price?: Price
  readonly buyer: Address
  readonly seller: Address
  readonly buyHash: OrderHash
  readonly sellHash: OrderHash
}

export type TradeOutcome = TradeSubmitted | TradeConfirmed | TradeFailed | TradeReverted

/** What everybody knows of a market, whoever watches it: that it opened, and that it closed. */
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
