/** Value and profit of a position. */

import { ONE } from '#domain/money.ts'

type Held = {
  /** Number of shares in millionths. */
  readonly shares: number
  readonly cost: number
}

type Worth = {
  /** Value in millionths of a dollar, rounded down. */
  readonly value: bigint
  readonly profit: bigint
  /** Average cost of a share, rounded up; undefined without shares. */
  readonly averageCost: number | undefined
}

/** Returns the value and the profit of a position. `price` is the current price of one share; undefined if unknown. */
export function worthOf({ shares, cost }: Held, price: number | undefined): Worth | undefined {
  if (price === undefined) return undefined
  const value = (BigInt(shares) * BigInt(Math.floor(price))) / BigInt(ONE)
  return { value, profit: value - BigInt(cost), averageCost: averageCostOf({ shares, cost }) }
}

function averageCostOf({ shares, cost }: Held): number | undefined {
  if (shares === 0) return undefined
  const scaled = BigInt(cost) * BigInt(ONE)
  return Number((scaled + BigInt(shares) - 1n) / BigInt(shares))
}
