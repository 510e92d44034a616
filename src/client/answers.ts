/**
 * Types of the SDK's answers that differ from the types in `protocol/shapes`. They keep sizes above 2^53 exact, and
 * accept answers of other versions of the exchange. All other answers have the types in `protocol/shapes`.
 */

import type { ConfigAnswer } from '#protocol/shapes/config.ts'
import type { BookAnswer } from '#protocol/shapes/markets.ts'
import type { CheckedOrder } from '#protocol/shapes/orders.ts'
import type { FailedClaim, PendingClaim } from '#protocol/shapes/relayer.ts'
import type { ErrorCode } from './sibyl-error.ts'

type Optional<T, K extends keyof T> = Omit<T, K> & Partial<Pick<T, K>>

export type Level = {
  readonly price: number
  /** Total size of all orders at the price, which may exceed 2^53. */
  readonly size: bigint
  /** Part of the size that comes from orders of the other outcome. Present only if `implied` was requested. */
  readonly implied?: bigint
}

export type Orderbook = Omit<BookAnswer, 'bids' | 'asks'> & {
  /** Bids, the best first. */
  readonly bids: readonly Level[]
  /** Asks, the best first. */
  readonly asks: readonly Level[]
}

export type ValidatedOrder = Omit<CheckedOrder, 'errors'> & {
  /** All reasons for which the exchange would reject the order; empty if the exchange would accept the order. */
  readonly errors: readonly (Omit<CheckedOrder['errors'][number], 'code'> & {
    readonly code: ErrorCode
  })[]
}

/** A redemption through the relayer; `reason` is set if the redemption failed. */
export type Claim = PendingClaim & Partial<Pick<FailedClaim, 'reason'>>

export type Config = Omit<ConfigAnswer, 'service' | 'limits'> & {
  /** Exchanges from before API versioning omit `apiVersion`. */
  readonly service: Optional<ConfigAnswer['service'], 'apiVersion'>
  readonly limits: Readonly<Record<string, number>>
}
