/** A trade is one fill: one buyer, one seller, one price, one size, and its way to the chain. */

import type { Address, MarketId, OrderHash, Sequence, TradeId } from './ids.ts'
import type { Price, Shares } from './money.ts'
import type { Outcome, Side, VerifiedOrder } from './order.ts'

/**
 * matched → submitted → confirmed, or failed; confirmed → reverted when a reorg removes it, and
 * reverted → submitted again.
 */
export const TRADE_STATUSES = ['matched', 'submitted', 'confirmed', 'failed', 'reverted'] as const
export type TradeStatus = (typeof TRADE_STATUSES)[number]

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
  readonly takerSide: Side
  readonly matchedAtMs: number
}

/** Which side of a failed trade the chain found at fault. */
export type FaultySide = 'buyer' | 'seller' | 'both' | 'none'

/** A trade with its signed orders, as the database has it. */
export type TradeWithOrders = Trade & {
  readonly chainId: number
  readonly status: TradeStatus
  /** How often it was submitted. */
  readonly attempts: number
  readonly buy: VerifiedOrder
  readonly sell: VerifiedOrder
}

/** A trade with everything that settling it takes; `tradeKey` is its id on chain. */
export type TradeToSettle = TradeWithOrders & { readonly tradeKey: string }
