/** What comes of looking at an operation, and of trying it. */

import type { Address } from '#domain/ids.ts'
import type { Claim } from '#domain/relay.ts'

/** What examining an operation found, if nothing speaks against it. */
export type RelayExamination = {
  readonly claims: readonly Claim[]
  /** It needs no transaction any more: the one that did it, or empty where that is not known. */
  readonly doneBy?: string
  /** Whether the relayer's own stablecoin goes into it. */
  readonly ownBond: boolean
}

/** A call that would succeed now, and the key that would send it. */
export type RelayTrial = {
  readonly lane: Address
  readonly to: Address
  readonly data: string
  /** Its gas limit. */
  readonly gas: number
}
