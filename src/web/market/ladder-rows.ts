/** Rows of the order book table: the best levels of each side with cumulative totals. */

import type { Level } from '#client/answers.ts'

export type LadderRow = {
  readonly price: number
  readonly size: bigint
  /** Sum of the sizes from the best price to this row's price, in millionths of a share. */
  readonly total: bigint
  /** Length of the row's bar: `total` in thousandths of the largest total of both sides. */
  readonly depth: number
  /** Part of the row's size that belongs to orders of the account. */
  readonly own: bigint
  /** Part of the row's size that comes from orders of the other outcome. */
  readonly implied: bigint
}

type Ladder = {
  /** Best first. */
  readonly bids: readonly LadderRow[]
  readonly asks: readonly LadderRow[]
}

type OwnOrder = {
  readonly side: 0 | 1
  readonly price: number
  readonly remainingSize: number
}

const FULL = 1_000n

export function ladderRows(
  bids: readonly Level[],
  asks: readonly Level[],
  own: readonly OwnOrder[],
): Ladder {
  const bid = sumOf(bids)
  const ask = sumOf(asks)
  const largest = bid > ask ? bid : ask
  return { bids: rows(bids, largest, ownAt(own, 0)), asks: rows(asks, largest, ownAt(own, 1)) }
}

function sumOf(levels: readonly Level[]): bigint {
  return levels.reduce((sum, { size }) => sum + size, 0n)
}

function rows(
  levels: readonly Level[],
  largest: bigint,
  own: ReadonlyMap<number, bigint>,
): LadderRow[] {
  let total = 0n
  return levels.map(({ price, size, implied = 0n }) => {
    total += size
    const depth = largest === 0n ? 0 : Number((total * FULL) / largest)
    return { price, size, total, depth, own: own.get(price) ?? 0n, implied }
  })
}

function ownAt(orders: readonly OwnOrder[], wanted: 0 | 1): ReadonlyMap<number, bigint> {
  const sums = new Map<number, bigint>()
  for (const { side, price, remainingSize } of orders) {
    if (side === wanted) sums.set(price, (sums.get(price) ?? 0n) + BigInt(remainingSize))
  }
  return sums
}
