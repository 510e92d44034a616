/**
 * Trades that were mined during a submission. A refusal may be older than that block: shares that a trader bought a
 * moment ago may be missing in the simulation and present when the answer arrives. So these trades count as in flight
 * when the refusal is judged, unless they have failed, or the refusal is of their block or later.
 */

import type { TradeToSettle } from '#domain/trade.ts'
import type { SettlementState } from './state.ts'

/** Starts a submission: its simulation sees only the blocks before it. */
export function beginMinedWatch({ older }: SettlementState): void {
  older.minedSince.clear()
}

export function noteMined(
  { steps, older }: SettlementState,
  trade: TradeToSettle,
  block: number,
): void {
  if (steps.busy.has('submit')) older.minedSince.set(trade.tradeId, { trade, block })
}

/** Removes a trade that has failed: it brings nothing. */
export function forgetMined({ older }: SettlementState, { tradeId }: TradeToSettle): void {
  older.minedSince.delete(tradeId)
}
