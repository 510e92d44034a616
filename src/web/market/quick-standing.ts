/** Where a quick market stands, and in which words. */

import type { QuickMarket } from '#protocol/shapes/prices.ts'

type QuickStanding = {
  readonly state: 'running' | 'ended' | 'resolved'
  /** Whether YES is ahead, or has won; undefined while no price is known. */
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
    return {
      state: 'resolved',
      isUp,
      words: isUp ? 'It went up: YES has won.' : 'It went down: NO has won.',
    }
  }
  const isUp = price === undefined ? undefined : price >= market.startPrice
  if (nowSec >= market.endTime) {
    return { state: 'ended', isUp, words: 'Ended. The outcome is being decided …' }
  }
  const ahead = isUp === undefined ? 'No price yet.' : isUp ? 'YES is ahead.' : 'NO is ahead.'
  return { state: 'running', isUp, words: ahead }
}
