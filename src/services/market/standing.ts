/** Checks whether a trader may place orders in a market now. Checks pending trades, pauses and the daily budget. */

import type { Address } from '#domain/ids.ts'
import { PENDING_TRADES_MAX } from '#domain/limits.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { MarketState } from './state.ts'

/** Returns the first reason why the trader may place no order now; undefined if there is none. */
export function standingFlaw(
  state: MarketState,
  trader: Address,
  nowMs: number,
): Rejection | undefined {
  const { market, rules, pending } = state
  if (pending.counts.total >= PENDING_TRADES_MAX) return reject('SETTLEMENT_BEHIND')
  const { risk } = rules
  if (risk === undefined) return undefined
  const { pauses, pendingTradesMax } = risk
  const untilMs = pauses?.of(market.chainId, trader)?.untilMs ?? 0
  if (untilMs > nowMs) return paused(untilMs, nowMs)
  if (pending.counts.of(trader) < pendingTradesMax) return budgetFlaw(state, trader, nowMs)
  const detail =
    `the trader has ${pendingTradesMax} or more unsettled trades, which is the maximum: retry when some of them ` +
    'have settled'
  return reject('TOO_MANY_PENDING_TRADES', 'order.trader', detail)
}

function budgetFlaw(
  { market: { chainId }, rules, pending }: MarketState,
  trader: Address,
  nowMs: number,
): Rejection | undefined {
  return rules.risk?.budgets?.flaw(chainId, trader, {
    pending: pending.counts.paidBy(trader),
    openOrders: () => rules.openOrders?.(trader, chainId) ?? 0,
    nowMs,
  })
}

function paused(untilMs: number, nowMs: number): Rejection {
  const retryAfterSec = Math.ceil((untilMs - nowMs) / 1_000)
  const until = new Date(untilMs).toISOString()
  const detail =
    "a trade failed, or would have failed, by the trader's fault: their new orders are rejected for " +
    `${retryAfterSec} more seconds, until ${until}`
  return { ...reject('TRADER_PAUSED', 'order.trader', detail), retryAfterSec }
}
