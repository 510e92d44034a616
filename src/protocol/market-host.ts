/** Messages to a market thread that concern all of its markets. */

import type { Address, MarketId } from '#domain/ids.ts'
import type { OpenOrderPlace, Outcome } from '#domain/order.ts'
import type { Rejection } from '#domain/rejection.ts'
import type { TraderHold, TraderNeeds, UnsettledTrades } from '#domain/trader-hold.ts'
import type { TraderPause } from '#domain/trader-pauses.ts'
import type { TraderSpending } from '#domain/trader-spending.ts'
import type { MarketProtocol, MarketView, OpenOrder } from './market.ts'

/**
 * A page of markets. `dozes` is true if the thread supports idle partitions; it is absent if the thread has an older
 * version.
 */
type MarketsAnswer = { views: MarketView[]; more: boolean; away: boolean; dozes?: true }

export type HoldProtocol = {
  /**
   * Sets a hold for a trader, in place of an earlier hold. A hold makes the market reject some kinds of the trader's
   * new orders. Returns the amounts that the trader's orders and trades need. The hold ends at `untilMs`, unless the
   * relayer renews it before.
   */
  HoldTrader: { takes: TraderHold; answers: TraderNeeds | Rejection }
  /** Returns the trader's unsettled sales of these outcomes of a market, and whether the market accepts orders. */
  UnsettledSales: {
    takes: { marketId: MarketId; trader: Address; outcomes: readonly Outcome[] }
    answers: (UnsettledTrades & { isOpen: boolean }) | Rejection
  }
}

type OpenOrdersProtocol = {
  /**
   * Returns a page of a trader's open orders in one market, or in all markets of this thread. Orders are sorted by age,
   * the oldest first; the page begins after the cursor `after`. `count` is the number of the trader's open orders on
   * all pages.
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
  /** Sends pauses (times in which a trader can place no orders) that this thread may not know yet. */
  TradersPaused: { takes: { pauses: readonly TraderPause[] }; answers: undefined }
  /** Returns the pauses that this thread knows. */
  PausedTraders: { takes: object; answers: { pauses: TraderPause[] } }
  /**
   * Sends the settlement costs that traders caused on one day. It contains only traders whose totals have changed, with
   * their new totals.
   */
  TradersSpent: {
    takes: { chainId: number; day: number; spending: readonly TraderSpending[] }
    answers: undefined
  }
  /** Returns the reason why the trader may place no order in this market now, if there is one. */
  Standing: {
    takes: { marketId: MarketId; trader: Address }
    answers: { refused?: Rejection } | Rejection
  }
  /** Returns the markets in which the trader has pending trades, on one chain or on all. */
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
    /**
     * Returns at most `limit` markets in which the trader has resting orders, on one chain or on all. If `group` is
     * set, only orders of this group count.
     */
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
     * Returns the states of this thread's markets, or only of the markets in `partitions`, to a new reader. The states
     * come in pages: each page begins after the market `after`. `more` is true if further pages follow. `away` is true
     * if some markets are unavailable because their partition cannot be opened.
     */
    Markets: { takes: { after?: MarketId; partitions?: readonly number[] }; answers: MarketsAnswer }
    /**
     * Confirms that the thread still owns its log. If the thread cannot confirm this, it answers with a
     * rejection.
     */
    Confirm: { takes: object; answers: { owner: true } }
    /** Reports whether the settlement of a chain lags so far behind that its markets accept cancels only. */
    SettlementLag: {
      takes: { chainId: number; behind: boolean; epoch?: number }
      answers: undefined
    }
    /** Reports that the database has all events of the partition up to and including this offset. */
    Projected: { takes: { partition: number; offset: number }; answers: undefined }
  }
