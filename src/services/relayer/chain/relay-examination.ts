/** Results of examining and simulating an operation. */

import type { Address } from '#domain/ids.ts'
import type { Claim } from '#domain/relay.ts'
import type { HeldOrders } from '#domain/trader-hold.ts'

/**
 * Condition on the owner's open orders and unsettled trades; the operation is sent only if the condition is met. An
 * approval can be revoked only if none of these orders and trades is a sell. An allowance can be changed, or a bond
 * paid, only if the buys among them need at most `buysMax`.
 */
export type RelayGuard = {
  /** Kinds of the owner's new orders that market threads refuse until the operation has ended. */
  readonly holds: HeldOrders
  /** Field of the request that the rejection names. */
  readonly field: string
  /** Maximum amount of stablecoin, in units, that the owner's open and unsettled buys may need. */
  readonly buysMax: bigint
}

/** Result of an examination without objections. */
export type RelayExamination = {
  readonly claims: readonly Claim[]
  /**
   * Set if no transaction is needed, because an earlier transaction had the same effect. Contains the hash of the
   * earlier transaction, or is empty if this hash is unknown.
   */
  readonly doneBy?: string
  /** True if the relayer pays the bond from its own stablecoin. */
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
  /** Gas limit of the call. */
  readonly gas: number
}

/** Result of an examination without objections: no claims, no guard, and no bond that the relayer must pay. */
export const NOTHING: RelayExamination = { claims: [], ownBond: false }
