/** Simulates an order against the current book: the size that fills on arrival, its cost, and its average price. */

import type { Level } from '#client/answers.ts'
import { costCeil, isShares, notionalFloor, ONE, type Price, type Shares } from '#domain/money.ts'

type Meeting = {
  readonly side: 'buy' | 'sell'
  /** Price in millionths of a dollar. */
  readonly price: number
  readonly size: number
}

export type Fill = {
  /** Size that fills on arrival, in millionths of a share. */
  readonly filled: number
  /** Size that does not fill on arrival, in millionths of a share. */
  readonly rest: number
  /**
   * Cost for a buyer or proceeds for a seller, in millionths of a dollar. The amount at each level is rounded as in the
   * exchange.
   */
  readonly cost: bigint
  /** Maximum part of `filled` that comes from orders of the other outcome, in millionths of a share. */
  readonly implied: number
  /** Average price of the filled part, rounded against the trader; undefined if nothing fills. */
  readonly average: number | undefined
  /** Worst price at which a part of the order fills; undefined if nothing fills. */
  readonly worst: number | undefined
  /** Absolute difference between the average price and the best price; 0 if nothing fills. */
  readonly slippage: number
}

/** Simulates an order against `levels`: the levels of the opposite side of the book, best first. */
export function simulateFill({ side, price, size }: Meeting, levels: Iterable<Level>): Fill {
  let rest = size
  let cost = 0n
  let implied = 0
  let best: number | undefined
  let worst: number | undefined
  for (const level of levels) {
    if (rest <= 0 || (side === 'buy' ? level.price > price : level.price < price)) break
    const taken = level.size < BigInt(rest) ? Number(level.size) : rest
    // A sell that matches an implied level is a merge. In a merge, the exchange rounds the maker's amount up and gives
    // the rest to the taker. So the taker's amount is rounded down here.
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

/**
 * Returns the average price, rounded up for a buyer and down for a seller. So the shown price is never better than the
 * real one.
 */
function averageOf(cost: bigint, filled: number, side: 'buy' | 'sell'): number {
  const shares = BigInt(filled)
  const scaled = cost * BigInt(ONE)
  return Number(side === 'buy' ? (scaled + shares - 1n) / shares : scaled / shares)
}

/**
 * Returns the maximum cost for a buyer: the cost of the part that fills now, plus the rest at the order's own price.
 */
export function costAtMost({ price, size }: Pick<Meeting, 'price' | 'size'>, fill: Fill): bigint {
  const { rest } = fill
  return fill.cost + (isShares(rest) && rest <= size ? BigInt(costCeil(price as Price, rest)) : 0n)
}

/**
 * Returns the number of shares that a market order must trade to spend the amount (buy) or receive it (sell). Takes the
 * best levels first, and only levels within the limit price.
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

/** Returns the number of shares that an amount can buy at this price. */
export function sharesFor(amount: bigint, price: number): number {
  const found = (amount * BigInt(ONE)) / BigInt(price)
  return found > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(found)
}
