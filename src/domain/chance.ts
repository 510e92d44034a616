/**
 * Computes the chance (the probability of an outcome) from the books of YES and NO. A share of YES and a share of NO
 * together pay a dollar. So a bid for NO counts as an ask for YES at the complementary price, and an ask for NO as a
 * bid for YES. On each side, the better price of the two books counts. The chance of NO is 100% minus the chance of
 * YES.
 */

import { ONE } from './money.ts'

type Prices = {
  /** Prices of YES and NO; 0 means no price. */
  readonly bestBidPrices: readonly [number, number]
  readonly bestAskPrices: readonly [number, number]
  readonly lastPrices: readonly [number, number] | null
}

/**
 * Returns the chance of YES in millionths: the mid price between the best bid and the best ask of both books. If the
 * bid or the ask is missing, returns the last price; if there is no last price, returns undefined.
 */
export function chanceOf({ bestBidPrices, bestAskPrices, lastPrices }: Prices): number | undefined {
  const bid = Math.max(bestBidPrices[0], complement(bestAskPrices[1]))
  const ask = lowest(bestAskPrices[0], complement(bestBidPrices[1]))
  if (bid > 0 && ask > 0) return Math.floor((bid + ask) / 2)
  const [yes, no] = lastPrices ?? [0, 0]
  if (yes > 0) return yes
  return no > 0 ? complement(no) : undefined
}

/** Returns the complementary price of the other outcome; 0 (no price) stays 0. */
function complement(price: number): number {
  return price === 0 ? 0 : ONE - price
}

function lowest(a: number, b: number): number {
  if (a === 0 || b === 0) return Math.max(a, b)
  return Math.min(a, b)
}
