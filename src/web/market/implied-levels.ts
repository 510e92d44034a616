/**
 * Implied levels: in a complementary market, an order of one outcome also counts in the book of the other outcome.
 * There it is on the opposite side, at one dollar minus its price.
 */

import type { Level } from '#client/answers.ts'
import { ONE } from '#domain/money.ts'

type PlacedOrder = {
  readonly side: 0 | 1
  readonly outcome: 0 | 1
  readonly price: number
  readonly remainingSize: number
}

/**
 * Returns the levels with the field `implied`: the level's size minus the size at the same price in the outcome's own
 * book.
 */
export function withImplied(levels: readonly Level[], own: readonly Level[]): readonly Level[] {
  const sizes = new Map(own.map(({ price, size }) => [price, size]))
  return levels.map(({ price, size }) => {
    const rest = size - (sizes.get(price) ?? 0n)
    // One of the two books may already include an update that the other lacks, so the difference may be negative.
    return { price, size, implied: rest > 0n ? rest : 0n }
  })
}

/**
 * Returns the orders as the book of an outcome shows them. An order of the other outcome appears on the opposite side,
 * at one dollar minus its price.
 */
export function ordersSeenFrom(
  outcome: 0 | 1,
  orders: readonly PlacedOrder[],
  isComplementary: boolean,
): readonly PlacedOrder[] {
  return orders.flatMap((order) => {
    if (order.outcome === outcome) return [order]
    if (!isComplementary) return []
    const side = order.side === 0 ? 1 : 0
    return [{ ...order, outcome, side, price: ONE - order.price }]
  })
}
