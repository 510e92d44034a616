/**
 * What the projector hands to the database: the rows and the changes of rows that follow from one
 * batch of market events, and the two ends of the batch in its partition. Plain data, types only.
 */

import type { MarketId, OrderHash, Sequence, TradeId } from '#domain/ids.ts'
import type { CloseReason, Market } from '#domain/market.ts'
import type { OrderCloseReason } from '#domain/market-event.ts'
import type { VerifiedOrder } from '#domain/order.ts'
import type { Trade, TradeStatus } from '#domain/trade.ts'

/** `market-closed` is what became of the orders that were resting when their market closed. */
export type OrderStatus = 'open' | Exclude<OrderCloseReason, 'taken'> | 'market-closed'

/** A market opened. */
export type MarketRow = {
  readonly market: Market
  readonly seq: Sequence
  readonly atMs: number
}

/** A market closed; every order of it that is still open after the batch ended with it. */
export type MarketChange = {
  readonly marketId: MarketId
  readonly closed: CloseReason
  readonly seq: Sequence
  readonly atMs: number
}

/** An order was accepted; `remaining` and `status` as its first event leaves them. */
export type OrderRow = {
  readonly order: VerifiedOrder
  readonly status: OrderStatus
  readonly remaining: number
  /** How many counter-orders it matched when it was placed. */
  readonly matches: number
  readonly placedAtMs: number
  readonly seq: Sequence
  readonly atMs: number
}

/** What an order is after an event: the whole of what can change about it, so the last one wins. */
export type OrderChange = {
  readonly orderHash: OrderHash
  readonly status: OrderStatus
  readonly remaining: number
  readonly seq: Sequence
  readonly atMs: number
}

/** A fill; it starts as `matched`. */
export type TradeRow = Trade

/** What the chain made of a trade. An empty `txHash` leaves the known one as it is. */
export type TradeChange = {
  readonly tradeId: TradeId
  readonly status: TradeStatus
  readonly txHash: string
  readonly reason: string
  readonly atMs: number
}

/**
 * One batch of one partition. It is applied only where the partition's checkpoint stands at `from`,
 * and leaves it at `to`. Changes are in the order in which they happened; a change may concern a row
 * of the same batch.
 */
export type ProjectionBatch = {
  readonly logId: string
  readonly partition: number
  readonly from: number
  readonly to: number
  readonly markets: readonly MarketRow[]
  readonly marketChanges: readonly MarketChange[]
  readonly orders: readonly OrderRow[]
  readonly orderChanges: readonly OrderChange[]
  readonly trades: readonly TradeRow[]
  readonly tradeChanges: readonly TradeChange[]
}
