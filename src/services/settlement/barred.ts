/**
 * Fails the unsent trades of a trader whose failed fills have used up the trader's gas budget of the day. These trades
 * were matched before the market threads knew that the budget is used up. On the chain, they would fail and cost gas
 * again. So each trade fails without a transaction, with this trader at fault.
 */

import type { FaultySide } from '#domain/trade.ts'
import { end } from './reports.ts'
import type { SettlementContext, SettlementState } from './state.ts'

const BUDGET_SPENT = 'GasBudgetSpent'

export function failBarred(state: SettlementState, context: SettlementContext): void {
  const barred = state.ports.barred?.()
  if (barred === undefined || barred.size === 0) return
  for (const tradeId of [...state.queue.tradeIds]) {
    const trade = state.trades.get(tradeId)?.trade
    // Skips a trade that was sent before: the chain may have settled it.
    if (trade === undefined || trade.status !== 'matched' || trade.attempts > 0) continue
    if (state.history.unverified.has(tradeId)) continue
    const fault = sideOf(barred.has(trade.buyer), barred.has(trade.seller))
    if (fault === 'none') continue
    end(state, tradeId, { status: 'failed', reason: BUDGET_SPENT, fault }, context)
  }
}

function sideOf(isBuyer: boolean, isSeller: boolean): FaultySide {
  if (isBuyer && isSeller) return 'both'
  if (isBuyer) return 'buyer'
  return isSeller ? 'seller' : 'none'
}
