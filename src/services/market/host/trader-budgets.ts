/**
 * Checks the budgets of traders at a market thread. Settlement publishes how much each trader has spent on a chain
 * today. The thread adds fills that settlement has not charged yet, and open orders, each of which may become such a
 * fill. Every other market thread may have just as many fills and orders of the trader. So the thread multiplies its
 * own count by the number of threads, which keeps the sum over all threads within the budget.
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
/**
 * Seconds after which a refused client should retry: the budget becomes free again as trades settle and orders end.
 */
const ROOM_AGAIN_SEC = 5

type ChainSpending = {
  readonly day: number
  readonly traders: Map<Address, TraderSpending>
  /**
   * For each trader, the number of settled fills that the trader pays for and that the published spending does not
   * include yet.
   */
  readonly uncharged: Map<Address, number>
}

export type Barred = { readonly chainId: number; readonly trader: Address }

export class TraderBudgets {
  readonly #limits: SpendingLimits
  readonly #threads: number
  readonly #chains = new Map<number, ChainSpending>()

  constructor(limits: SpendingLimits, marketThreads: number) {
    this.#limits = limits
    this.#threads = marketThreads
  }

  /**
   * Stores the spending that settlement published. Returns the traders who, by this update, have used up their daily
   * budget for failed fills.
   */
  merge(chainId: number, day: number, spending: readonly TraderSpending[]): Barred[] {
    const chain = this.#chainOn(chainId, day)
    if (chain.day > day) return []
    const { traders, uncharged } = chain
    const barred: Barred[] = []
    for (const each of spending) {
      const { trader } = each
      const before = traders.get(trader)
      const was = before !== undefined && isSpent(this.#limits, 'failedGas', before)
      if (!was && isSpent(this.#limits, 'failedGas', each)) barred.push({ chainId, trader })
      remember(traders, trader, each, SPENDING_TRADERS_MAX)
      const left = (uncharged.get(trader) ?? 0) - Math.max(0, each.fills - (before?.fills ?? 0))
      if (left > 0) uncharged.set(trader, left)
      else uncharged.delete(trader)
    }
    return barred
  }

  /** Counts a settled fill for the trader who pays for it. The fill is counted until settlement has charged it. */
  settled(chainId: number, trader: Address, nowMs: number): void {
    const { uncharged } = this.#chainOn(chainId, dayOf(nowMs))
    remember(uncharged, trader, (uncharged.get(trader) ?? 0) + 1, SPENDING_TRADERS_MAX)
  }

  /**
   * Returns the chain's spending of the given day. If spending of a later day is already stored, returns that instead.
   */
  #chainOn(chainId: number, day: number): ChainSpending {
    const known = this.#chains.get(chainId)
    if (known !== undefined && known.day >= day) return known
    const chain = { day, traders: new Map(), uncharged: new Map() }
    this.#chains.set(chainId, chain)
    return chain
  }

  /** Returns why a new order of the trader is refused now; undefined if the trader's budgets allow it. */
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
    const unpaid = pending + (chain?.uncharged.get(trader) ?? 0)
    const coming = this.#threads * (unpaid + open)
    const expected = {
      ...spending,
      fills: spending.fills + coming,
      gas: spending.gas + coming * GAS_PER_FILL,
    }
    for (const budget of ['fills', 'gas'] as const) {
      if (!isSpent(limits, budget, expected)) continue
      const detail =
        `the trader has used ${spending[budget]} of ${limitOf(limits, budget)} ${WORDS[budget]} today, and their ` +
        `${open} open orders and ${unpaid} trades in progress can use the rest: cancel orders, or wait until trades ` +
        'settle'
      const rejection = reject('GAS_BUDGET_SPENT', 'order.trader', detail)
      return { ...rejection, retryAfterSec: ROOM_AGAIN_SEC }
    }
    return undefined
  }
}

const WORDS: Readonly<Record<Budget, string>> = {
  fills: 'settled fills',
  gas: 'gas for settled fills',
  failedGas: "gas for fills that failed by the trader's fault",
}

function spent(
  limits: SpendingLimits,
  budget: Budget,
  spending: TraderSpending,
  nowMs: number,
): Rejection {
  const untilMs = nextDayMs(nowMs)
  const detail =
    `the trader has used ${spending[budget]} of ${limitOf(limits, budget)} ${WORDS[budget]} today: their new ` +
    `orders are accepted from ${new Date(untilMs).toISOString()}`
  const retryAfterSec = Math.ceil((untilMs - nowMs) / 1_000)
  return { ...reject('GAS_BUDGET_SPENT', 'order.trader', detail), retryAfterSec }
}
