/** Prices of the order ticket: the initial price, price steps, and the worst price of a market order. */

import { PRICE_MAX, PRICE_MIN } from '#domain/money.ts'

/** Step of a price in the ticket: a tenth of a cent. The exchange accepts every millionth. */
const STEP = 1_000

type Best = {
  /** `bid` is the best bid, and `ask` is the best ask. Each is 0 if its side of the book is empty. */
  readonly bid: number
  readonly ask: number
}

/**
 * Returns the middle between the best bid and the best ask, not rounded. If only one of them exists, returns its price.
 * If neither exists, returns undefined.
 */
export function midOf({ bid, ask }: Best): number | undefined {
  if (bid > 0 && ask > 0) return (bid + ask) / 2
  return bid > 0 ? bid : ask > 0 ? ask : undefined
}

/** Returns the mid rounded to a step: down for a buyer, up for a seller, so that the order does not cross the mid. */
export function firstPrice(side: 'buy' | 'sell', best: Best): number {
  const mid = midOf(best) ?? (PRICE_MAX + 1) / 2
  const steps = mid / STEP
  return within((side === 'buy' ? Math.floor(steps) : Math.ceil(steps)) * STEP)
}

/** Returns the next price step above or below a price. */
export function stepped(price: number, direction: 1 | -1): number {
  const steps = price / STEP
  return within((direction === 1 ? Math.floor(steps) + 1 : Math.ceil(steps) - 1) * STEP)
}

/**
 * Returns the worst price that a market order accepts. A buyer accepts the best ask plus the slippage limit. A seller
 * accepts the best bid minus the slippage limit. Returns undefined if the opposite side of the book is empty.
 */
export function worstPrice(side: 'buy' | 'sell', best: Best, slippage: number): number | undefined {
  const met = side === 'buy' ? best.ask : best.bid
  if (met === 0) return undefined
  return within(side === 'buy' ? met + slippage : met - slippage)
}

function within(price: number): number {
  return Math.min(PRICE_MAX, Math.max(PRICE_MIN, price))
}
