/**
 * The operator's cost of settling a trader's trades in a day (UTC), and its limits. Settlement has no fees, so the
 * operator pays the gas of every fill.
 *
 * Each fill is charged to one trader. In one match, every fill but the last completely fills a maker's order, and is
 * charged to that maker. The last fill is charged to the taker. So a trader who splits an amount into many small orders
 * is charged for each of them, as maker or taker. No trader can use up the budget of another by trading with them.
 *
 *   Eve places 500 asks of $1, Ann buys all of them for $500   Eve pays for 499 fills, Ann for 1
 *   Ann places one ask of $500, Eve buys $1 of it 500 times   Eve pays for 500 fills, Ann for none
 *
 * If a fill fails on chain by the fault of one side, its gas is charged to that side, in a separate budget. Gas that an
 * account adds by its code or its permits is charged to that account, even if another trader pays for the fill.
 */

import type { Address } from './ids.ts'

export type TraderSpending = {
  readonly trader: Address
  /** Number of fills charged to the trader: fills in finished transactions, except failed fills. */
  readonly fills: number
  /**
   * Gas that is charged to the trader: the gas of the trader's fills, and of the trader's permits and account code in
   * the same transactions. Fills that failed on chain by the fault of one side count in `failedGas` instead.
   */
  readonly gas: number
  /**
   * Gas of fills that failed on chain by this trader's fault. The gas of the trader's permits and account
   * code in the same transactions counts here, not in `gas`.
   */
  readonly failedGas: number
}

/** Limits per trader, chain and day; 0 means unlimited. */
export type SpendingLimits = {
  readonly fillsPerDay: number
  readonly gasPerDay: number
  readonly failedGasPerDay: number
  /** Traders without limits, such as market makers under contract. */
  readonly exempt: ReadonlySet<Address>
}

export const BUDGETS = ['fills', 'gas', 'failedGas'] as const
export type Budget = (typeof BUDGETS)[number]

const DAY_MS = 86_400_000

export function dayOf(ms: number): number {
  return Math.floor(ms / DAY_MS)
}

/** Returns the start of the next day's budgets, in Unix milliseconds. */
export function nextDayMs(ms: number): number {
  return (dayOf(ms) + 1) * DAY_MS
}

export function hasLimits({ fillsPerDay, gasPerDay, failedGasPerDay }: SpendingLimits): boolean {
  return fillsPerDay > 0 || gasPerDay > 0 || failedGasPerDay > 0
}

export function limitOf(limits: SpendingLimits, budget: Budget): number {
  return limits[`${budget}PerDay`]
}

/** Returns whether the trader has used up the budget; false if the budget has no limit or the trader is exempt. */
export function isSpent(
  limits: SpendingLimits,
  budget: Budget,
  { trader, [budget]: used }: TraderSpending,
): boolean {
  const limit = limitOf(limits, budget)
  return limit > 0 && used >= limit && !limits.exempt.has(trader)
}
