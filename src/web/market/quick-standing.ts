/** State of a quick market, and its description. */

import type { QuickMarket } from '#protocol/shapes/prices.ts'

type QuickStanding = {
  readonly state: 'running' | 'ended' | 'resolved'
  /** True if YES is ahead or has won, false if NO is ahead or has won; undefined while no price is known. */
  readonly isUp: boolean | undefined
  readonly words: string
}

export function quickStanding(
  market: QuickMarket,
  price: number | undefined,
  nowSec: number,
): QuickStanding {
  if (market.resolved) {
    const isUp = market.outcome === 0
    const how = goesToOracle(market)
      ? 'The oracle decided'
      : `The price went ${isUp ? 'up' : 'down'}`
    return { state: 'resolved', isUp, words: `${how}: ${isUp ? 'YES' : 'NO'} has won.` }
  }
  const isUp = price === undefined ? undefined : price >= market.startPrice
  if (nowSec >= market.endTime) {
    const words = goesToOracle(market)
      ? 'Ended. The price sources contradict each other, so the oracle decides.'
      : 'Ended. The outcome is being decided …'
    return { state: 'ended', isUp, words }
  }
  const ahead = isUp === undefined ? 'No price yet.' : isUp ? 'YES is ahead.' : 'NO is ahead.'
  return { state: 'running', isUp, words: ahead }
}

/**
 * Returns whether the oracle decides the outcome, as in any other market. This is the case if the price sources
 * contradict each other.
 */
export function goesToOracle(market: QuickMarket | undefined): boolean {
  return market?.verdict === 'contested' || market?.verdict === 'oracle'
}
