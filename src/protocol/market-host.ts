/** Messages to a market thread that concern all of its markets. */

import type { Address, MarketId } from '#domain/ids.ts'
import type { OpenOrderPlace, Outcome } from '#domain/order.ts'
import type { Rejection } from '#domain/rejection.ts'
import type { TraderHold, TraderNeeds, UnsettledTrades } from '#domain/trader-hold.ts'
import type { TraderPause } from '#domain/trader-pauses.ts'
import type { TraderSpending } from '#domain/trader-spending.ts'
import type { MarketProtocol, MarketView, OpenOrder } from './market.ts'

/** `dozes`: the thread supports idle partitions; an older version does not. */
type ToldMarkets = { views: MarketView[]; more: boolean; away: boolean; dozes?: true }

export type HoldProtocol = {
  /** Replaces the trader's hold and returns the needs; the relayer renews it before `untilMs`. */
  HoldTrader: { takes: TraderHold; answers: TraderNeeds | Rejection }
  /** Returns the trader's unsettled sales of these outcomes of a market, and whether the market accepts orders. */
  UnsettledSales: {
    takes: { marketId: MarketId; trader: Address; outcomes: readonly Outcome[] }
    answers: (UnsettledTrades & { isOpen: boolean }) | Rejection
  }
}

type OpenOrdersProtocol = {
  /**
   * Returns open orders of a trader in one market or in all markets of this thread: the oldest ones after a cursor,
   * and the total count.
   */
  OpenOrdersPage: {
    takes: {
      trader: Address
      marketId?: MarketId
      chainId?: number
      after?: OpenOrderPlace
      limit: number
    }
    answers: OrdersPage
  }
}

export type OrdersPage = { orders: OpenOrder[]; count: number }

export type StandingProtocol = {
  /** Pauses of traders that this thread may not know. */
  TradersPaused: { takes: { pauses: readonly TraderPause[] }; answers: undefined }
  /** Returns the pauses that this thread knows. */
  PausedTraders: { takes: object; answers: { pauses: TraderPause[] } }
  /** Settlement cost of traders on a day: the newest sums that changed. */
  TradersSpent: {
    takes: { chainId: number; day: number; spending: readonly TraderSpending[] }
    answers: undefined
  }
  /** Returns why the trader may place no order in this market now. */
  Standing: {
    takes: { marketId: MarketId; trader: Address }
    answers: { refused?: Rejection } | Rejection
  }
  /** Returns markets with pending trades of the trader: of one chain or all. */
  PendingMarkets: {
    takes: { trader: Address; chainId?: number }
    answers: { marketIds: MarketId[] }
  }
}

/** All messages to a market thread: those for one market, and those for all markets. */
export type MarketThreadProtocol = MarketProtocol &
  HoldProtocol &
  OpenOrdersProtocol &
  StandingProtocol & {
    /** Returns some of the markets, of one chain or all, in which orders of a trader, or of one of their groups, rest. */
    MarketsOf: {
      takes: { trader: Address; chainId?: number; group?: string; limit: number }
      answers: { marketIds: MarketId[] }
    }
    /** Returns the number of resting orders of this thread by chain. */
    CountOrders: {
      takes: object
      answers: { chains: (readonly [chainId: number, orders: number])[] }
    }
    /**
     * Returns markets of this thread, or of these partitions, for a new reader: those after the last one sent. `more`
     * if others follow; `away` if some are unavailable because their partition cannot be opened.
     */
    Markets: { takes: { after?: MarketId; partitions?: readonly number[] }; answers: ToldMarkets }
    /** Confirms that the thread still owns its log; a thread that does not own it gives no answer. */
    Confirm: { takes: object; answers: { owner: true } }
    /** Reports whether the settlement of a chain is so far behind that its markets accept cancels only. */
    SettlementLag: {
      takes: { chainId: number; behind: boolean; epoch?: number }
      answers: undefined
    }
    /** The database has everything of the partition up to and including this offset. */
    Projected: { takes: { partition: number; offset: number }; answers: undefined }
  }
