/** Messages to the accounts thread, and its messages to the fronts. */

import type { FundsToken } from '#domain/funds.ts'
import type { Address, MarketId, OrderHash, Uint64 } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import type { Outcome, Side } from '#domain/order.ts'
import type { Rejection } from '#domain/rejection.ts'

/** An order that needs reserved funds. */
export type ReserveOrder = {
  readonly chainId: number
  readonly orderHash: OrderHash
  readonly marketId: MarketId
  readonly trader: Address
  readonly side: Side
  readonly outcome: Outcome
  readonly price: Price
  readonly size: Shares
  /**
   * Nonce of the order's permit; undefined if the order has no permit. An order with a permit needs no earlier
   * allowance.
   */
  readonly permit: Uint64 | undefined
  /** Value of the order's permit; absent in a message of an earlier version. */
  readonly permitValue?: string
}

export type Granted = { readonly granted: true }

/**
 * A trader's balance, allowance and reservations of one token. Amounts are integers as decimal strings, in
 * millionths of the token.
 */
export type TokenFunds = {
  readonly token: FundsToken
  readonly held: string
  readonly allowed: string
  readonly reservedOpen: string
  readonly reservedPending: string
  readonly free: string
}

export type FundsView = {
  readonly chainId: number
  readonly trader: Address
  readonly blockNumber: number
  /** The stablecoin first. */
  readonly tokens: readonly TokenFunds[]
}

export type AccountsFollowerProtocol = {
  FundsChanged: {
    takes: { accounts: readonly { readonly chainId: number; readonly trader: Address }[] }
    answers: undefined
  }
}

export type AccountsRequests = {
  /** Reserves the funds of an order before its market receives it. */
  Reserve: {
    takes: { order: ReserveOrder; deadlineAtMs: number }
    answers: Granted | Rejection
  }
  /**
   * Releases the funds of one granted `Reserve`, because the market rejected the order or had already accepted it
   * before.
   */
  Release: { takes: { orderHash: OrderHash }; answers: undefined }
  /** Returns the answer that `Reserve` would give, and reserves nothing. */
  Check: { takes: { order: ReserveOrder; deadlineAtMs: number }; answers: Granted | Rejection }
  Funds: {
    takes: { chainId: number; trader: Address; deadlineAtMs: number }
    answers: FundsView | Rejection
  }
}
