/** The prices of a ticket: the one that it begins with, and steps from there. */

import { PRICE_MAX, PRICE_MIN } from '#domain/money.ts'

/** The exchange takes every millionth; the page steps in tenths of a cent. */
const STEP = 1_000

type Best = {
  /** 0 where there is none. */
  readonly bid: number
  readonly ask: number
}

/** Between the best two; the only one there is; a half where there are none. Not rounded. */
export function midOf({ bid, ask }: Best): number | undefined {
  if (bid > 0 && ask > 0) return (bid + ask) / 2
  return bid > 0 ? bid : ask > 0 ? ask : undefined
}

/** The mid on a step: a buyer's below it and a seller's above, so that it never crosses the other side. */
export function firstPrice(side: 'buy' | 'sell', best: Best): number {
  const mid = midOf(best) ?? (PRICE_MAX + 1) / 2
  const steps = mid / STEP
  return within((side === 'buy' ? Math.floor(steps) : Math.ceil(steps)) * STEP)
}

/** The next step up or down from wherever the price is. */
export function stepped(price: number, direction: 1 | -1): number {
  const steps = price / STEP
  return within((direction === 1 ? Math.floor(steps) + 1 : Math.ceil(steps) - 1) * STEP)
}

/** The worst price that a market order accepts: the best of the other side, and the slippage limit beyond it. */
export function worstPrice(side: 'buy' | 'sell', best: Best, slippage: number): number | undefined {
  const met = side === 'buy' ? best.ask : best.bid
  if (met === 0) return undefined
  return within(side === 'buy' ? met + slippage : met - slippage)
}

function within(price: number): number {
  return Math.min(PRICE_MAX, Math.max(PRICE_MIN, price))
}
