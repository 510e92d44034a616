/**
 * Rows and row changes that follow from one batch of market events, and the batch's start and end in its partition.
 * Plain data, types only.
 */

import type { MarketId, OrderHash, Sequence, TradeId } from '#domain/ids.ts'
import type { CloseReason, Market } from '#domain/market.ts'
import type { OrderCloseReason } from '#domain/market-event.ts'
import type { VerifiedOrder } from '#domain/order.ts'
import type { EchoedTags } from '#domain/order-tags.ts'
import type { FaultySide, Trade, TradeStatus } from '#domain/trade.ts'

/** `market-closed`: the order was resting when its market closed. */
export type OrderStatus = 'open' | Exclude<OrderCloseReason, 'taken'> | 'market-closed'

/** An opened market. */
export type MarketRow = {
  readonly market: Market
  readonly seq: Sequence
  readonly atMs: number
}

/** A market that the batch closes. The closing ends every order of the market that is still open after the batch. */
export type MarketChange = {
  readonly marketId: MarketId
  readonly closed: CloseReason
  readonly seq: Sequence
  readonly atMs: number
}

/** An accepted order, with `remaining` and `status` as they are after its first event. */
export type OrderRow = {
  readonly order: VerifiedOrder
  readonly status: OrderStatus
  readonly remaining: number
  /** Number of counter-orders that the order matched when placed. */
  readonly matches: number
  readonly placedAtMs: number
  readonly seq: Sequence
  readonly atMs: number
  readonly tags?: EchoedTags | undefined
}

/** State of an order after an event. Each change contains all fields that can change, so the last change wins. */
export type OrderChange = {
  readonly orderHash: OrderHash
  readonly status: OrderStatus
  readonly remaining: number
  readonly seq: Sequence
  readonly atMs: number
}

/** A fill; its first status is `matched`. */
export type TradeRow = Trade

/** The chain's result for a trade. An empty `txHash` keeps the stored hash. */
export type TradeChange = {
  readonly tradeId: TradeId
  readonly status: TradeStatus
  readonly txHash: string
  readonly reason: string
  /**
   * The side at fault of a failed trade. Leaves out a side that the market does not blame, for example a seller who
   * lacked the tokens because the purchase of these tokens had failed.
   */
  readonly fault?: FaultySide
  readonly atMs: number
}

/**
 * One batch of one partition. The batch is applied only if the partition's checkpoint is `from`, and sets the
 * checkpoint to `to`. Changes are in the order in which they happened; a change may refer to a row of the same batch.
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
