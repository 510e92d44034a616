/** What comes of looking at an operation, and of trying it. */

import type { Address } from '#domain/ids.ts'
import type { Claim } from '#domain/relay.ts'
import type { HeldOrders } from '#domain/trader-hold.ts'

/**
 * The effect of the operation on the owner's open orders and unsettled trades. Sells need the approval, so a
 * revocation is allowed only if there are none; buys may need at most `buysMax`.
 */
export type RelayGuard = {
  /** Kinds of new orders of the owner that are refused until the operation has ended. */
  readonly holds: HeldOrders
  /** The field of the request that a refusal names. */
  readonly field: string
  /** What open and unsettled buys may need at most, in units of stablecoin. */
  readonly buysMax: bigint
}

/** What examining an operation found, if nothing speaks against it. */
export type RelayExamination = {
  readonly claims: readonly Claim[]
  /** It needs no transaction any more: the one that did it, or empty where that is not known. */
  readonly doneBy?: string
  /** Whether the relayer's own stablecoin goes into it. */
  readonly ownBond: boolean
  readonly guard?: RelayGuard
}

/** A call that would succeed now, and the key that would send it. */
export type RelayTrial = {
  readonly lane: Address
  readonly to: Address
  readonly data: string
  /** Its gas limit. */
  readonly gas: number
}
