/**
 * Budgets of traders at a market thread. Settlement publishes the spending of each trader today on a chain. The thread
 * adds possible further spending: unsettled fills that the trader pays for, and open orders, each of which may become
 * such a fill. It multiplies its own count by the number of market threads, because each of them may hold as many; so
 * the sum over all threads stays within the budget.
 */

import type { Address } from '#domain/ids.ts'
import { SPENDING_TRADERS_MAX } from '#domain/limits.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import { remember } from '#domain/remember.ts'
import {
  BUDGETS,
  type Budget,
  dayOf,
  isSpent,
  limitOf,
  nextDayMs,
  type SpendingLimits,
  type TraderSpending,
} from '#domain/trader-spending.ts'

/** Gas that is assumed for a fill until its receipt arrives. */
const GAS_PER_FILL = 100_000
/** The budget becomes free as trades settle and orders end. */
const ROOM_AGAIN_SEC = 5

type ChainSpending = { readonly day: number; readonly traders: Map<Address, TraderSpending> }

export type Barred = { readonly chainId: number; readonly trader: Address }

export class TraderBudgets {
  readonly #limits: SpendingLimits
  readonly #threads: number
  readonly #chains = new Map<number, ChainSpending>()

  constructor(limits: SpendingLimits, marketThreads: number) {
    this.#limits = limits
    this.#threads = marketThreads
  }

  /** Stores the sums from settlement; returns traders who have newly used up their budget by failed fills. */
  merge(chainId: number, day: number, spending: readonly TraderSpending[]): Barred[] {
    const known = this.#chains.get(chainId)
    if (known !== undefined && known.day > day) return []
    const traders = known?.day === day ? known.traders : new Map<Address, TraderSpending>()
    this.#chains.set(chainId, { day, traders })
    const barred: Barred[] = []
    for (const each of spending) {
      const { trader } = each
      const before = traders.get(trader)
      const was = before !== undefined && isSpent(this.#limits, 'failedGas', before)
      if (!was && isSpent(this.#limits, 'failedGas', each)) barred.push({ chainId, trader })
      remember(traders, trader, each, SPENDING_TRADERS_MAX)
    }
    return barred
  }

  /** Returns why the trader may not place an order now; undefined if they may. */
  flaw(
    chainId: number,
    trader: Address,
    { pending, openOrders, nowMs }: { pending: number; openOrders: () => number; nowMs: number },
  ): Rejection | undefined {
    const limits = this.#limits
    if (limits.exempt.has(trader)) return undefined
    const chain = this.#chains.get(chainId)
    const today = chain?.day === dayOf(nowMs) ? chain.traders.get(trader) : undefined
    const spending = today ?? { trader, fills: 0, gas: 0, failedGas: 0 }
    for (const budget of BUDGETS) {
      if (isSpent(limits, budget, spending)) return spent(limits, budget, spending, nowMs)
    }
    if (limits.fillsPerDay === 0 && limits.gasPerDay === 0) return undefined
    const open = openOrders()
    const coming = this.#threads * (pending + open)
    const expected = {
      ...spending,
      fills: spending.fills + coming,
      gas: spending.gas + coming * GAS_PER_FILL,
    }
    for (const budget of ['fills', 'gas'] as const) {
      if (!isSpent(limits, budget, expected)) continue
      const detail =
        `this trader has used ${spending[budget]} of ${limitOf(limits, budget)} ${WORDS[budget]} today, and ` +
        `${open} open orders and ${pending} unsettled trades may use the rest; cancel orders, or wait until trades settle`
      const rejection = reject('GAS_BUDGET_SPENT', 'order.trader', detail)
      return { ...rejection, retryAfterSec: ROOM_AGAIN_SEC }
    }
    return undefined
  }
}

const WORDS: Readonly<Record<Budget, string>> = {
  fills: 'settled fills',
  gas: 'gas for settled fills',
  failedGas: 'gas for fills that failed by their fault',
}

function spent(
  limits: SpendingLimits,
  budget: Budget,
  spending: TraderSpending,
  nowMs: number,
): Rejection {
  const untilMs = nextDayMs(nowMs)
  const detail =
    `this trader has used ${spending[budget]} of ${limitOf(limits, budget)} ${WORDS[budget]} today; ` +
    `new orders are accepted from ${new Date(untilMs).toISOString()}`
  const retryAfterSec = Math.ceil((untilMs - nowMs) / 1_000)
  return { ...reject('GAS_BUDGET_SPENT', 'order.trader', detail), retryAfterSec }
}
