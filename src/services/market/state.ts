/** What a market hears, says and remembers. */

import type { Book } from '#book/book.ts'
import type { SelfTrade } from '#book/match.ts'
import type { Address, OrderHash, Sequence, TradeId } from '#domain/ids.ts'
import type { CloseReason, Market } from '#domain/market.ts'
import type { TraderPauses } from '#domain/trader-pauses.ts'
import type { ClosedOrder, TradeState } from '#log/event-log.ts'
import type { LoggedHolds } from './held.ts'
import type { TraderBudgets } from './host/trader-budgets.ts'
import type { PendingTrades } from './pending.ts'
/**
 * What is known about the hashes and trades of the batch under way: what the partition's file says
 * of them, and on top of it what the batch itself has made of them so far.
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
  /** Trades that the chain has neither confirmed nor refused. */
  unsettled: number
  readonly pending: PendingTrades
  /** Orders that end with their session, as the log has it. */
  readonly held: LoggedHolds
  readonly rules: MarketRules
  readonly recall: Recall
}

export type MarketRules = {
  readonly selfTrade: SelfTrade
  /** Orders that may rest in both books together. */
  readonly ordersMax: number
  /** Chains whose settlement is behind: their markets take cancels only. */
  readonly behind?: Pick<ReadonlySet<number>, 'has'>
  /** Chains whose trades are settled; all of them where it is left out. */
  readonly settled?: Pick<ReadonlySet<number>, 'has'>
  readonly risk?: RiskRules
  /** Counts the open orders of a trader in all markets of a chain on this thread. */
  readonly openOrders?: (trader: Address, chainId: number) => number
  /** Keeps traders from choosing hashes that collide in the books' indices. */
  readonly seed: number
}

/** What is asked of traders whatever they hold. */
export type RiskRules = {
  /** The least that price times size of an order may be, in millionths of the stablecoin. */
  readonly minNotional: number
  /** Pending trades of one trader on a chain beyond which new orders wait. */
  readonly pendingTradesMax: number
  /** Who pauses; no trader does where it is left out. */
  readonly pauses?: TraderPauses
  /** Daily limits on the cost of settling a trader's trades; left out if there are none. */
  readonly budgets?: TraderBudgets
}
