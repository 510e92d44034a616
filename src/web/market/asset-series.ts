/**
 * The price of a quick market's asset as a line from the start to the end of the market, for comparison with the
 * strike.
 */

import type { QuickMarket } from '#protocol/shapes/prices.ts'
import { assetPrice, countdown } from '../format.ts'

/** Price of the asset, with eight implied decimals, at a Unix second. */
export type AssetPoint = { readonly sec: number; readonly price: number }

/** A step of the line. A step in the future has no price. */
export type AssetStep = { readonly sec: number; readonly price?: number }

/** Maximum number of steps of a line, whatever the length of the market. */
const STEPS_MAX = 900

type Ends = Pick<QuickMarket, 'startTime' | 'endTime' | 'startPrice' | 'endPrice'>

/** Adds the newest price. Keeps one price per second, and ignores a price that is older than the last one. */
export function withPrice(points: readonly AssetPoint[], next: AssetPoint): readonly AssetPoint[] {
  const last = points.at(-1)
  if (last !== undefined && next.sec < last.sec) return points
  return last?.sec === next.sec ? points.with(-1, next) : [...points, next]
}

/**
 * Returns steps of equal length from the start to the end of the market. Steps in the future have no price. The line
 * begins at the strike. Once the market has ended, the line ends at the price that decided the market.
 */
export function assetSteps(
  market: Ends,
  points: readonly AssetPoint[],
  nowSec: number,
): readonly AssetStep[] {
  const { startTime, endTime, startPrice } = market
  const stepSec = Math.max(1, Math.ceil((endTime - startTime) / STEPS_MAX))
  const steps: AssetStep[] = []
  let price = startPrice
  let at = 0
  for (let sec = startTime; sec <= endTime; sec += stepSec) {
    for (; (points[at]?.sec ?? Infinity) <= sec; at++) {
      if (points[at]!.sec > startTime) price = points[at]!.price
    }
    steps.push(sec <= nowSec ? { sec, price } : { sec })
  }
  const { endPrice } = market
  if (endPrice == null || nowSec < endTime) return steps
  // The prices between the start and the end are not known, so a straight line joins the start price and the end price.
  if (!hasCourse(market, points)) {
    const slope = (endPrice - startPrice) / (steps.length - 1)
    return steps.map(({ sec }, step) => ({ sec, price: Math.round(startPrice + slope * step) }))
  }
  return steps.with(-1, { sec: steps.at(-1)!.sec, price: endPrice })
}

/**
 * Returns whether any prices between the start and the end of the market are known. The exchange lists only prices of
 * the last 20 minutes.
 */
export function hasCourse({ startTime, endTime }: Ends, points: readonly AssetPoint[]): boolean {
  return points.some(({ sec }) => sec > startTime && sec < endTime)
}

/** Describes the chart in words, for traders who do not see it. */
export function assetWords(
  market: QuickMarket,
  steps: readonly AssetStep[],
  nowSec: number,
): string {
  const prices = steps.flatMap(({ price }) => price ?? [])
  const last = prices.at(-1)
  if (last === undefined) return `There is no price of ${market.asset} yet.`
  const distance = last - market.startPrice
  const side =
    distance === 0 ? 'at' : `${assetPrice(Math.abs(distance))} ${distance > 0 ? 'above' : 'below'}`
  const [low, high] = [Math.min(...prices), Math.max(...prices)]
  const left = market.endTime - nowSec
  const time = left > 0 ? `${countdown(left)} are left.` : 'The market has ended.'
  return (
    `${market.asset} ${left > 0 ? 'is' : 'was'} at ${assetPrice(last)}, ${side} the strike of ` +
    `${assetPrice(market.startPrice)}, with prices between ${assetPrice(low)} and ` +
    `${assetPrice(high)} in this chart. ${time}`
  )
}
