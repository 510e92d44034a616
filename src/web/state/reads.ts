/** Reads data other than the list of markets, and converts it to the page's own types. */

import type { Market } from '#protocol/shapes/markets.ts'
import type { UserActivity, UserPosition } from '#protocol/shapes/users.ts'
import { reader } from './exchange.ts'

export type Position = UserPosition
export type OwnTrade = UserActivity['activity'][number]
export type Payout = UserActivity['settlements'][number]

type Whose = { readonly address: string; readonly chainId: number }

const ACTIVITY_LISTED = 50

export function readMarket(marketId: string): Promise<Market> {
  return reader.market(marketId)
}

export function readPositions(whose: Whose): Promise<readonly Position[]> {
  return reader.positions(whose)
}

/** Returns the realised profit over all markets, including markets in which the account no longer has shares. */
export async function readRealisedProfit(whose: Whose): Promise<bigint> {
  return BigInt(await reader.realisedProfit(whose))
}

export function readActivity(whose: Whose): Promise<UserActivity> {
  return reader.activity({ ...whose, limit: ACTIVITY_LISTED })
}
