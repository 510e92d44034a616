/** State and rules of a market. */

import type { Book } from '#book/book.ts'
import type { SelfTrade } from '#book/match.ts'
import type { Address, OrderHash, Sequence, TradeId } from '#domain/ids.ts'
import type { CloseReason, Market } from '#domain/market.ts'
import type { TraderPauses } from '#domain/trader-pauses.ts'
import type { ClosedOrder, TradeState } from '#log/event-log.ts'
import type { LoggedHolds, SessionIndex } from './held.ts'
import type { TraderBudgets } from './host/trader-budgets.ts'
import type { PendingTrades } from './pending.ts'
import type { TaggedOrders } from './tagged-orders.ts'

/**
 * State of the orders and trades to which the current batch refers. It is read from the partition’s records, and
 * updated while the batch is handled.
 */
export type Recall = {
  readonly closed: Map<OrderHash, ClosedOrder>
  readonly trades: Map<TradeId, TradeState>
}

export type MarketState = {
  readonly market: Market
  readonly books: readonly [yes: Book, no: Book]
  seq: Sequence
  closed: CloseReason | undefined
  updatedAtMs: number
  /** Number of trades that the chain has neither confirmed nor refused. */
  unsettled: number
  readonly pending: PendingTrades
  /** Orders that the market cancels when their session ends; derived from the log. */
  readonly held: LoggedHolds
  /** Labels and groups of orders; derived from the log. */
  readonly tagged: TaggedOrders
  readonly rules: MarketRules
  readonly recall: Recall
}

export type MarketRules = {
  readonly selfTrade: SelfTrade
  /** Maximum number of resting orders in both books together. */
  readonly ordersMax: number
  /** Chains whose settlement is behind: their markets accept cancels only. */
  readonly behind?: Pick<ReadonlySet<number>, 'has'>
  /** Chains whose trades this exchange settles; undefined means all chains. */
  readonly settled?: Pick<ReadonlySet<number>, 'has'>
  readonly risk?: RiskRules
  /** The orders of all sessions on this thread, and the maximum number of orders per session. */
  readonly sessions?: { readonly index: SessionIndex; readonly ordersMax: number }
  /** Counts a trader's open orders in those markets of a chain that this thread serves. */
  readonly openOrders?: (trader: Address, chainId: number) => number
  /**
   * Secret seed of the books' indices. Traders do not know the seed, so they cannot choose order hashes that collide in
   * an index.
   */
  readonly seed: number
}

/** Rules that apply to traders regardless of their funds. */
export type RiskRules = {
  /** Minimum notional value (price times size) of an order, in millionths of the stablecoin. */
  readonly minNotional: number
  /** Number of pending trades per trader and chain at which new orders of the trader are refused. */
  readonly pendingTradesMax: number
  /** Paused traders; undefined if pauses are off. */
  readonly pauses?: TraderPauses
  /** Daily limits on the cost of settling a trader's trades; undefined if there are none. */
  readonly budgets?: TraderBudgets
}
