/** A market as everybody knows it: the words, the place on chain, and when it ends. */

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
