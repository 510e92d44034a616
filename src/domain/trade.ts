/** A trade is one fill: one buyer, one seller, one price, one size, and its settlement. */

import type { Address, MarketId, OrderHash, Sequence, TradeId } from './ids.ts'
import type { Price, Shares } from './money.ts'
import type { Outcome, Side, VerifiedOrder } from './order.ts'

/**
 * A mint: a buy of YES and a buy of NO, whose dollars are split into both tokens. A merge: a sell of YES and a sell of
 * NO, whose tokens are merged into dollars.
 */
export const FILL_KINDS = ['mint', 'merge'] as const
export type FillKind = (typeof FILL_KINDS)[number]

/**
 * Status of a trade: matched → submitted → confirmed, or failed. If a reorg removes a confirmed trade, it becomes
 * reverted and is submitted again.
 */
export const TRADE_STATUSES = ['matched', 'submitted', 'confirmed', 'failed', 'reverted'] as const
export type TradeStatus = (typeof TRADE_STATUSES)[number]

/**
 * One fill. A mint or merge is recorded as a trade of the maker's outcome at the maker's price. In a mint both sides
 * buy: the maker is recorded as the buyer, and the taker as the seller. In a merge both sides sell: the maker is
 * recorded as the seller, and the taker as the buyer.
 */
export type Trade = {
  readonly tradeId: TradeId
  readonly marketId: MarketId
  readonly seq: Sequence
  readonly fillIndex: number
  readonly outcome: Outcome
  readonly price: Price
  readonly size: Shares
  readonly buyer: Address
  readonly seller: Address
  readonly buyOrderHash: OrderHash
  readonly sellOrderHash: OrderHash
  /** Role of the taker: the buyer (`BUY`) or the seller. */
  readonly takerSide: Side
  readonly matchedAtMs: number
  /** Mint or merge; absent for an ordinary trade of one outcome. */
  readonly kind?: FillKind
}

/** A trade as lists show it, without its orders. */
export type ListedTrade = Omit<
  Trade,
  'marketId' | 'fillIndex' | 'buyOrderHash' | 'sellOrderHash'
> & {
  readonly status: TradeStatus
  /** Transaction hash; empty until the first submission. */
  readonly txHash: string
}

/** Side of a failed trade that the chain found at fault. */
export type FaultySide = 'buyer' | 'seller' | 'both' | 'none'

/** A trade with its signed orders, from the database. */
export type TradeWithOrders = Trade & {
  readonly chainId: number
  readonly status: TradeStatus
  /** Number of submissions. */
  readonly attempts: number
  readonly buy: VerifiedOrder
  readonly sell: VerifiedOrder
}

/** Facts about an unsettled trade that survive a crash of settlement. */
export type TradeNote = {
  readonly tradeId: TradeId
  /** Time since settlement first read the trade, in milliseconds, without the time when the chain was unreachable. */
  readonly reachableMs: number
  readonly retries: number
  readonly wastedGas: number
  /** Set if a transaction in a block showed that the chain rejects the trade; contains the side at fault. */
  readonly refusal?: TradeRefusal
}

export type TradeRefusal = { readonly fault: FaultySide; readonly reason: string }

/** A trade with everything that settlement needs; `tradeKey` is its id on chain. */
export type TradeToSettle = TradeWithOrders & {
  readonly tradeKey: string
  /**
   * Set if the chain rejected this trade in a block that a reorg removed later. The trade still fails, unless another
   * transaction has settled it meanwhile.
   */
  readonly refusal?: TradeRefusal
}
