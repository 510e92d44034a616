/** The book as a depth chart: shares that can be traded up to each price, on both sides of the mid. */

import type { Level } from '#client/answers.ts'
import { ONE } from '#domain/money.ts'
import { cents, decimal } from '../format.ts'

type DepthPoint = {
  readonly price: number
  /** Shares from the best price up to this one. */
  readonly total: bigint
  /** Cost or proceeds of these shares, in millionths of a dollar. */
  readonly value: bigint
}

export type Depth = {
  /** Prices at the left and the right edge of the chart. If both sides have orders, the mid is in the middle. */
  readonly low: number
  readonly high: number
  /** Total at the upper edge. */
  readonly largest: bigint
  /** Best first. */
  readonly bids: readonly DepthPoint[]
  readonly asks: readonly DepthPoint[]
}

/** Prevents a single level from filling the whole width: at least two cents on each side. */
const REACH_MIN = 20_000

/** Returns undefined while the book is empty. */
export function depthOf(bids: readonly Level[], asks: readonly Level[]): Depth | undefined {
  const [bid, ask] = [bids[0]?.price, asks[0]?.price]
  if (bid === undefined && ask === undefined) return undefined
  const mid = ((bid ?? ask ?? 0) + (ask ?? bid ?? 0)) / 2
  const far = Math.max(mid - (bids.at(-1)?.price ?? mid), (asks.at(-1)?.price ?? mid) - mid)
  const reach = Math.max(REACH_MIN, far * 1.05)
  const points = { bids: pointsOf(bids), asks: pointsOf(asks) }
  const sums = [points.bids.at(-1)?.total ?? 0n, points.asks.at(-1)?.total ?? 0n]
  return {
    ...points,
    low: Math.max(0, mid - reach),
    high: Math.min(ONE, mid + reach),
    largest: sums[0]! > sums[1]! ? sums[0]! : sums[1]!,
  }
}

function pointsOf(levels: readonly Level[]): readonly DepthPoint[] {
  let total = 0n
  let value = 0n
  return levels.map(({ price, size }) => {
    total += size
    value += (BigInt(price) * size) / BigInt(ONE)
    return { price, total, value }
  })
}

/** Returns the area of one side as the path of an SVG of this width and height. */
export function depthPath(
  depth: Depth,
  side: 'bids' | 'asks',
  { width, height }: { readonly width: number; readonly height: number },
): string {
  const { low, high, largest } = depth
  const points = depth[side]
  const first = points[0]
  if (first === undefined || largest === 0n) return ''
  const x = (price: number) => round(((price - low) / (high - low)) * width)
  const y = (total: bigint) => round(height - (Number(total) / Number(largest)) * height)
  const steps = points.map(({ price, total }) => `H${x(price)}V${y(total)}`).join('')
  // Beyond the last level of the book, the total stays the same.
  return `M${x(first.price)} ${height}${steps}H${side === 'bids' ? 0 : width}V${height}Z`
}

const round = (value: number): number => Math.round(value * 10) / 10

/** Returns the level that an order at this price would reach, and on which side it is. */
export function depthAt(
  { bids, asks }: Depth,
  price: number,
): { readonly side: 'bid' | 'ask'; readonly point: DepthPoint } | undefined {
  const bid = bids.findLast((point) => point.price >= price)
  if (bid !== undefined) return { side: 'bid', point: bid }
  const ask = asks.findLast((point) => point.price <= price)
  return ask === undefined ? undefined : { side: 'ask', point: ask }
}

/** Describes the chart in words, for traders who do not see it. */
export function depthWords(outcome: string, depth: Depth | undefined): string {
  if (depth === undefined) return `There are no orders for ${outcome}.`
  const side = (name: string, points: readonly DepthPoint[], way: string) => {
    const last = points.at(-1)
    const best = points[0]
    if (last === undefined || best === undefined) return `There are no ${name}.`
    const sum = `${decimal(last.total, 0)} shares from ${cents(best.price)} ${way} ${cents(last.price)}`
    return `The ${name} for ${outcome} sum up to ${sum}.`
  }
  return `${side('bids', depth.bids, 'down to')} ${side('asks', depth.asks, 'up to')}`
}
