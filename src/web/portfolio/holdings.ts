/**
 * Computes the value of positions. In an open market, shares are valued at the prices in the books. In a decided
 * market, their value follows from the outcome.
 */

import type { Market } from '#protocol/shapes/markets.ts'
import { UNIT } from '../format.ts'
import type { Position } from '../state/reads.ts'

type Outcome = 0 | 1

export type Holding = {
  readonly position: Position
  readonly outcome: Outcome
  readonly shares: bigint
  readonly cost: bigint
  /** Price of one share in millionths of a dollar; undefined if the market has neither a mid nor a trade. */
  readonly price: number | undefined
  readonly value: bigint | undefined
  readonly profit: bigint | undefined
}

/**
 * Returns the mid of the outcome's own book. If there is no such mid, returns one dollar minus the mid of the other
 * outcome. If neither outcome has a mid, returns the last price.
 */
export function markPrice(market: Market | undefined, outcome: Outcome): number | undefined {
  if (market === undefined) return undefined
  const own = middle(market, outcome)
  if (own !== undefined) return own
  const other = middle(market, outcome === 0 ? 1 : 0)
  if (other !== undefined) return Number(UNIT) - other
  const last = market.lastPrices?.[outcome] ?? 0
  return last === 0 ? undefined : last
}

function middle({ bestBidPrices, bestAskPrices }: Market, outcome: Outcome): number | undefined {
  const bid = bestBidPrices[outcome]
  const ask = bestAskPrices[outcome]
  return bid === 0 || ask === 0 ? undefined : Math.floor((bid + ask) / 2)
}

/** Returns one entry per held outcome, in the order of the positions. */
export function holdingsOf(
  positions: readonly Position[],
  marketOf: (marketId: string) => Market | undefined,
  winnerOf: (marketId: string) => Outcome | undefined,
): Holding[] {
  return positions.flatMap((position) =>
    ([0, 1] as const).flatMap((outcome) => {
      const shares = BigInt(outcome === 0 ? position.yesShares : position.noShares)
      if (shares === 0n) return []
      const cost = BigInt(outcome === 0 ? position.yesCost : position.noCost)
      const price = priceOf(position, outcome, marketOf, winnerOf)
      const value = price === undefined ? undefined : (shares * BigInt(price)) / UNIT
      const profit = value === undefined ? undefined : value - cost
      return [{ position, outcome, shares, cost, price, value, profit }]
    }),
  )
}

function priceOf(
  { marketId, resolved }: Position,
  outcome: Outcome,
  marketOf: (marketId: string) => Market | undefined,
  winnerOf: (marketId: string) => Outcome | undefined,
): number | undefined {
  if (!resolved) return markPrice(marketOf(marketId), outcome)
  const winner = winnerOf(marketId)
  if (winner === undefined) return undefined
  return winner === outcome ? Number(UNIT) : 0
}

/**
 * Returns the total value and profit of the holdings with a known price. The totals are undefined if there are holdings
 * but no known price. `isWhole` is true if the prices of all holdings are known.
 */
export function totalsOf(holdings: readonly Holding[]): {
  readonly value: bigint | undefined
  readonly profit: bigint | undefined
  readonly isWhole: boolean
} {
  const known = holdings.filter(({ value }) => value !== undefined)
  const isWhole = known.length === holdings.length
  if (known.length === 0 && !isWhole) return { value: undefined, profit: undefined, isWhole }
  const sum = (amounts: readonly (bigint | undefined)[]) =>
    amounts.reduce((total: bigint, amount) => total + (amount ?? 0n), 0n)
  return {
    value: sum(known.map(({ value }) => value)),
    profit: sum(known.map(({ profit }) => profit)),
    isWhole,
  }
}
