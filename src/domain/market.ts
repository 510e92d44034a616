/** A market as it is known: the words, the place on chain, and when it ends. */

import type { Address, MarketId } from './ids.ts'

export const CATEGORIES = ['defi', 'protocol', 'stablecoin', 'general'] as const
export type Category = (typeof CATEGORIES)[number]

export type Market = {
  readonly id: MarketId
  readonly question: string
  readonly description: string
  readonly category: Category
  readonly contractAddress: Address
  readonly maker: Address
  /** Unix seconds; from then on the market takes no orders. */
  readonly expiration: number
  readonly chainId: number
  readonly createdAt: number
  /** Whether it is one of the short price markets. */
  readonly quick: boolean
}

/** Why a market stopped taking orders. */
export type CloseReason = 'expired' | 'resolved' | 'withdrawn'

/**
 * What becomes of a market on chain after it stopped trading. `overturned` and `abandoned` end an
 * assertion without a result, so that another can be proposed; `reverted` says that a reorg took the
 * last of these back.
 */
export const RESOLUTION_EVENTS = [
  'proposed',
  'disputed',
  'overturned',
  'abandoned',
  'resolved',
  'reverted',
] as const
export type ResolutionEventName = (typeof RESOLUTION_EVENTS)[number]
