/**
 * Trades that came into a block while a submission was under way. A refusal may be older than that block: a trader who
 * sells shares bought a moment ago lacked them when the batch was simulated, and has them when the answer arrives. So
 * these trades count as in flight when the refusal is judged, unless they have failed.
 */

import type { TradeToSettle } from '#domain/trade.ts'
import type { SettlementState } from './state.ts'

/** Begins a submission: its simulation sees the blocks before it. */
export function beginMinedWatch({ older }: SettlementState): void {
  older.minedSince.clear()
}

export function noteMined({ steps, older }: SettlementState, trade: TradeToSettle): void {
  if (steps.busy.has('submit')) older.minedSince.set(trade.tradeId, trade)
}

/** Removes a trade that has failed: it brings nothing. */
export function forgetMined({ older }: SettlementState, { tradeId }: TradeToSettle): void {
  older.minedSince.delete(tradeId)
}
