/** A market: its texts, its contract, and its expiration. */

import type { Address, MarketId } from './ids.ts'

export const CATEGORIES = ['defi', 'protocol', 'stablecoin', 'general'] as const
export type Category = (typeof CATEGORIES)[number]

/**
 * Matching rules of a market. `same-outcome`: only orders of one outcome match. `complementary`: a buy of YES also
 * matches a buy of NO, and a sell of YES also matches a sell of NO. The rule is chosen when the market is created and
 * never changes.
 */
export const MATCHINGS = ['same-outcome', 'complementary'] as const
export type Matching = (typeof MATCHINGS)[number]

export type Market = {
  readonly id: MarketId
  readonly question: string
  readonly description: string
  readonly category: Category
  readonly contractAddress: Address
  readonly maker: Address
  /** Unix seconds at which the market stops accepting orders. */
  readonly expiration: number
  readonly chainId: number
  readonly createdAt: number
  /** True for a quick market: a short market on the price of an asset. */
  readonly quick: boolean
  /** Matching rule; absent in older logs and snapshots, where every market has the rule `same-outcome`. */
  readonly matching?: Matching
}

export function matchingOf({ matching }: Pick<Market, 'matching'>): Matching {
  return matching ?? 'same-outcome'
}

export function isComplementary({ matching }: Pick<Market, 'matching'>): boolean {
  return matching === 'complementary'
}

/** Reason why a market stopped accepting orders. */
export type CloseReason = 'expired' | 'resolved' | 'withdrawn'

/**
 * Steps of a market on chain after it stopped trading. `overturned` and `abandoned` end an assertion without a result,
 * so that an outcome can be proposed again. `reverted` means that a reorg removed the last step.
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
