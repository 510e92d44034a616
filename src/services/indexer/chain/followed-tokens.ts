/**
 * Decides which outcome tokens are followed: those with our collateral. Anyone may split any ERC-20 token, in any
 * amount, with the conditional tokens contract. Outcome tokens with other collateral are ignored.
 *
 * A token’s id is a hash that does not reveal the token’s collateral. But tokens are only minted by a split, a merge or
 * a redemption, and the event of that operation names the collateral. So a token is followed in three cases: the
 * database follows it already, it belongs to a market created in these blocks, or an event of these blocks names it
 * with our collateral.
 *
 * The token's market need not exist yet. A market's id is known in advance, so anyone may prepare the condition and
 * split collateral before the market is created.
 */

import type { Hex } from 'viem'
import type { TokenEvent } from '#chain/conditional-tokens.ts'
import { collectionPositionId, positionIdOf } from '#chain/position-id.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import type { Outcome } from '#domain/order.ts'

type Conversion = TokenEvent & {
  readonly type: 'PositionSplit' | 'PositionsMerged' | 'PayoutRedeemed'
}

export function isConversion(event: TokenEvent): event is Conversion {
  return (
    event.type === 'PositionSplit' ||
    event.type === 'PositionsMerged' ||
    event.type === 'PayoutRedeemed'
  )
}

export function isWithoutParent({ parentCollectionId }: Conversion): boolean {
  return /^0x0+$/.test(parentCollectionId)
}

/** Returns the distinct outcome sets of a split, merge or redemption; undefined if they cannot belong to a market. */
export function outcomeSetsOf(event: Conversion): readonly bigint[] | undefined {
  const redeems = event.type === 'PayoutRedeemed'
  const sets = [...new Set(redeems ? event.indexSets : event.partition)].sort((a, b) =>
    a < b ? -1 : 1,
  )
  // A redemption may list the same outcome many times, so duplicates are ignored. A market has only the outcome sets 1
  // and 2.
  if (!sets.every((set) => set === 1n || set === 2n)) return undefined
  return redeems || sets.length === 2 ? sets : undefined
}

/**
 * Returns the tokens with our collateral that the splits, merges and redemptions in these events name. An event without
 * a parent collection names both tokens of its condition. Any other event names the token of its parent collection.
 */
export function tokensNamed(stablecoin: Address, events: Iterable<TokenEvent>): Set<string> {
  const conditions = new Set<MarketId>()
  const collections = new Set<string>()
  for (const event of events) {
    if (!isConversion(event) || event.collateral !== stablecoin) continue
    if (!isWithoutParent(event)) collections.add(event.parentCollectionId)
    else if (outcomeSetsOf(event) !== undefined) conditions.add(event.conditionId)
  }
  const named = new Set<string>()
  for (const id of collections) named.add(collectionPositionId(stablecoin, id as Hex))
  for (const id of conditions) {
    for (const outcome of [0, 1] as Outcome[]) named.add(positionIdOf(stablecoin, id, outcome))
  }
  return named
}
