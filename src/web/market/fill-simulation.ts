/** Simulates an order against the current book: how much of it fills on arrival, at which cost and average price. */

import type { Level } from '#client/answers.ts'
import { costCeil, isShares, notionalFloor, ONE, type Price, type Shares } from '#domain/money.ts'

type Meeting = {
  readonly side: 'buy' | 'sell'
  /** Price in millionths of a dollar. */
  readonly price: number
  readonly size: number
}

export type Fill = {
  /** The part that fills on arrival, in millionths of a share. */
  readonly filled: number
  /** The part that does not fill. */
  readonly rest: number
  /** Cost for the buyer or proceeds of the seller, each level rounded like the exchange does. */
  readonly cost: bigint
  /** Part of `filled` that may match orders of the other outcome. */
  readonly implied: number
  /** Average price of the filled part, rounded against the trader; undefined if nothing fills. */
  readonly average: number | undefined
  /** The last matched price. */
  readonly worst: number | undefined
  /** Difference between the average and the best price, to the trader's disadvantage; 0 if nothing fills. */
  readonly slippage: number
}

/** Simulates an order against `levels`, the levels of the other side, best first. */
export function simulateFill({ side, price, size }: Meeting, levels: Iterable<Level>): Fill {
  let rest = size
  let cost = 0n
  let implied = 0
  let best: number | undefined
  let worst: number | undefined
  for (const level of levels) {
    if (rest <= 0 || (side === 'buy' ? level.price > price : level.price < price)) break
    const taken = level.size < BigInt(rest) ? Number(level.size) : rest
    // In a merge the exchange rounds the amount of the taker down, because it rounds that of the maker up.
    const rounded = side === 'sell' && level.implied ? notionalFloor : costCeil
    cost += BigInt(rounded(level.price as Price, taken as Shares))
    if (level.implied) implied += level.implied < BigInt(taken) ? Number(level.implied) : taken
    rest -= taken
    best ??= level.price
    worst = level.price
  }
  const filled = size - rest
  const average = filled === 0 ? undefined : averageOf(cost, filled, side)
  const slippage = average === undefined || best === undefined ? 0 : Math.abs(average - best)
  return { filled, rest, cost, implied, average, worst, slippage }
}

/** Rounds up for a buyer and down for a seller, so that the result is never shown as better than it is. */
function averageOf(cost: bigint, filled: number, side: 'buy' | 'sell'): number {
  const shares = BigInt(filled)
  const scaled = cost * BigInt(ONE)
  return Number(side === 'buy' ? (scaled + shares - 1n) / shares : scaled / shares)
}

/** Returns the maximum cost for a buyer: the part that fills now, and the rest at its own price. */
export function costAtMost({ price, size }: Pick<Meeting, 'price' | 'size'>, fill: Fill): bigint {
  const { rest } = fill
  return fill.cost + (isShares(rest) && rest <= size ? BigInt(costCeil(price as Price, rest)) : 0n)
}

/**
 * Returns the shares that a market order must buy to spend an amount, or sell to receive it. It uses the best levels
 * first, up to the limit price, and never more than they hold.
 */
export function sharesFromBook(
  { side, price, amount }: Pick<Meeting, 'side' | 'price'> & { readonly amount: bigint },
  levels: Iterable<Level>,
): number {
  let left = amount
  let shares = 0n
  for (const level of levels) {
    if (left <= 0n || (side === 'buy' ? level.price > price : level.price < price)) break
    const wanted = (left * BigInt(ONE)) / BigInt(level.price)
    if (wanted < level.size) {
      shares += wanted
      break
    }
    shares += level.size
    left -= (level.size * BigInt(level.price)) / BigInt(ONE)
  }
  return shares > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(shares)
}

/** Returns how many shares an amount buys at a price without exceeding the amount. */
export function sharesFor(amount: bigint, price: number): number {
  const found = (amount * BigInt(ONE)) / BigInt(price)
  return found > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(found)
}
