/** Resolution updates of a market from the chain, for the stream. */

import type { ResolutionEventName } from '#domain/market.ts'

/** Facts of a resolution event; only those that apply are set. */
export type ResolutionFacts = {
  readonly assertionId?: string
  readonly proposer?: string
  /** Proposed outcome: true for YES, false for NO. */
  readonly proposedOutcome?: boolean
  /** Bond in the stablecoin, 6 decimals. */
  readonly bondAmount?: string
  /** Unix seconds. */
  readonly assertionTime?: number
  /** End of the dispute window, in Unix seconds. */
  readonly expirationTime?: number
  /** 0 = YES, 1 = NO. */
  readonly winningOutcome?: 0 | 1
  readonly txHash?: string
  readonly blockNumber?: number
}

export type ResolutionUpdate = {
  readonly event: ResolutionEventName
  readonly atMs: number
  readonly facts: ResolutionFacts
}
