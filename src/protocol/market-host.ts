/** Messages to a market thread that concern all of its markets. */

import type { Address, MarketId, OrderHash, Uint64 } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import type { OpenOrderPlace, Outcome, Side } from '#domain/order.ts'
import type { Rejection } from '#domain/rejection.ts'
import type { TraderHold, TraderNeeds, UnsettledTrades } from '#domain/trader-hold.ts'
import type { TraderPause } from '#domain/trader-pauses.ts'
import type { TraderSpending } from '#domain/trader-spending.ts'
import type { MarketProtocol, MarketView, OpenOrder } from './market.ts'

/** `dozes`: it knows what partitions are that doze; a thread of an older version does not. */
type ToldMarkets = { views: MarketView[]; more: boolean; away: boolean; dozes?: true }

export type HoldProtocol = {
  /** Replaces the trader's hold and returns the needs; the relayer renews it before `untilMs`. */
  HoldTrader: { takes: TraderHold; answers: TraderNeeds | Rejection }
  /** The trader's unsettled sales of these outcomes of a market, and whether the market takes orders. */
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
  /** Pauses of traders that this thread may not know of. */
  TradersPaused: { takes: { pauses: readonly TraderPause[] }; answers: undefined }
  /** The pauses that this thread knows of. */
  PausedTraders: { takes: object; answers: { pauses: TraderPause[] } }
  /** The operator's cost of traders on a day: the newest sums of those that changed. */
  TradersSpent: {
    takes: { chainId: number; day: number; spending: readonly TraderSpending[] }
    answers: undefined
  }
  /** Why the trader may place no order in this market for now. */
  Standing: {
    takes: { marketId: MarketId; trader: Address }
    answers: { refused?: Rejection } | Rejection
  }
  /** Markets in which trades of the trader are pending. */
  PendingMarkets: { takes: { trader: Address }; answers: { marketIds: MarketId[] } }
  /** Whose orders would meet what comes back. */
  NextInLine: { takes: ComingBack; answers: NextInLine | Rejection }
}

/** What failed trades may give back to one side of a book, and so who is in line for it on the other. */
export type ComingBack = {
  readonly marketId: MarketId
  readonly outcome: Outcome
  /** The side that the line is on. */
  readonly side: Side
  readonly orders: readonly {
    readonly orderHash: OrderHash
    readonly price: Price
    readonly expiration: Uint64
    /** What one of those trades took of it. */
    readonly size: Shares
  }[]
}

/** The line, the first first, and how much comes back to it. */
export type NextInLine = { readonly size: number; readonly line: readonly InLine[] }

export type InLine = {
  readonly trader: Address
  readonly price: Price
  readonly remaining: Shares
  /** Trades of his are pending: he may be owed what he lacks. */
  readonly isPending: boolean
}

/** Everything that a market thread hears: what its markets hear, and what concerns all of them. */
export type MarketThreadProtocol = MarketProtocol &
  HoldProtocol &
  OpenOrdersProtocol &
  StandingProtocol & {
    /** Some of the markets in which a trader has orders. */
    MarketsOf: {
      takes: { trader: Address; limit: number }
      answers: { marketIds: MarketId[] }
    }
    /** How many orders rest in the markets of this thread, by chain. */
    CountOrders: {
      takes: object
      answers: { chains: (readonly [chainId: number, orders: number])[] }
    }
    /**
     * The markets of this thread, or of these partitions of it, for a reader that has just come, behind the one
     * it was told last. `more` when there are others behind the last of these; `away` when some cannot be told, as
     * their file is away.
     */
    Markets: { takes: { after?: MarketId; partitions?: readonly number[] }; answers: ToldMarkets }
    /** Like any command without events, only a thread that still owns its log answers it. */
    Confirm: { takes: object; answers: { owner: true } }
    /** Whether the settlement of a chain is so far behind that its markets take cancels only. */
    SettlementLag: {
      takes: { chainId: number; behind: boolean; epoch?: number }
      answers: undefined
    }
    /** The database holds everything of the partition up to and with this offset. */
    Projected: { takes: { partition: number; offset: number }; answers: undefined }
  }
