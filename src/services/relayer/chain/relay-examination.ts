/** Results of examining and simulating an operation. */

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
  /** Field of the request that is named in a refusal. */
  readonly field: string
  /** Maximum that open and unsettled buys may need, in units of stablecoin. */
  readonly buysMax: bigint
}

/** Result of an examination without objections. */
export type RelayExamination = {
  readonly claims: readonly Claim[]
  /** Set if no transaction is needed: the hash of the earlier one with this effect, or empty if unknown. */
  readonly doneBy?: string
  /** True if the relayer's own stablecoin is used. */
  readonly ownBond: boolean
  readonly guard?: RelayGuard
  /** True if a delegate of the owner signed the operation. */
  readonly byDelegate?: boolean
}

/** A call that would succeed now, and the key that would send it. */
export type RelayTrial = {
  readonly lane: Address
  readonly to: Address
  readonly data: string
  /** Its gas limit. */
  readonly gas: number
}

/** An operation without claims, bond or guard. */
export const NOTHING: RelayExamination = { claims: [], ownBond: false }
