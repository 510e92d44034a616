/** Computes the depth chart of a book: the shares that can be traded up to each price, on both sides of the mid. */

import type { Level } from '#client/answers.ts'
import { ONE } from '#domain/money.ts'
import { cents, decimal } from '../format.ts'

type DepthPoint = {
  readonly price: number
  /** Number of shares from the best price up to `price`, in millionths. */
  readonly total: bigint
  /** Cost or proceeds of `total` shares, in millionths of a dollar. */
  readonly value: bigint
}

export type Depth = {
  /**
   * Prices at the left and right edges of the chart. They are equally far from the mid, unless an edge is limited to 0
   * or one dollar.
   */
  readonly low: number
  readonly high: number
  /** The larger total of the two sides, in millionths of a share. The upper edge of the chart stands for this total. */
  readonly largest: bigint
  /** Best first. */
  readonly bids: readonly DepthPoint[]
  readonly asks: readonly DepthPoint[]
}

/** Minimum distance from the mid to each edge: two cents. Otherwise a single level could fill the whole width. */
const REACH_MIN = 20_000

/** Returns the depth of the book; undefined if the book is empty. */
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

/** Returns one side of the chart as an SVG path for a drawing of this width and height. */
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
  // From the last level of the book to the edge of the chart, the total stays constant.
  return `M${x(first.price)} ${height}${steps}H${side === 'bids' ? 0 : width}V${height}Z`
}

const round = (value: number): number => Math.round(value * 10) / 10

/**
 * Returns the worst level that an order at this price would match, and that level's side. Returns undefined if the
 * order would match nothing.
 */
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
