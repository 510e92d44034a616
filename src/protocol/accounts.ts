/** Messages to accounts, and what accounts tell the fronts. */

import type { FundsToken } from '#domain/funds.ts'
import type { Address, MarketId, OrderHash, Uint64 } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import type { Outcome, Side } from '#domain/order.ts'
import type { Rejection } from '#domain/rejection.ts'

/** An order that asks for its need. */
export type ReserveOrder = {
  readonly chainId: number
  readonly orderHash: OrderHash
  readonly marketId: MarketId
  readonly trader: Address
  readonly side: Side
  readonly outcome: Outcome
  readonly price: Price
  readonly size: Shares
  /** The nonce of the permit that it carries: then it needs no earlier allowance. */
  readonly permit: Uint64 | undefined
}

export type Granted = { readonly granted: true }

/** What a trader has of one token, has allowed and needs; decimal text, in units of six decimals. */
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
  /** Asks for the need of an order, before its market is asked to place it. */
  Reserve: {
    takes: { order: ReserveOrder; deadlineAtMs: number }
    answers: Granted | Rejection
  }
  /** One `Reserve` that was granted came to nothing: the order was refused, or was there before. */
  Release: { takes: { orderHash: OrderHash }; answers: undefined }
  /** What `Reserve` would answer. */
  Check: { takes: { order: ReserveOrder; deadlineAtMs: number }; answers: Granted | Rejection }
  Funds: {
    takes: { chainId: number; trader: Address; deadlineAtMs: number }
    answers: FundsView | Rejection
  }
  /** The same, of what is known without asking the chain; undefined when nothing is. */
  KnownFunds: { takes: { chainId: number; trader: Address }; answers: FundsView | undefined }
}
