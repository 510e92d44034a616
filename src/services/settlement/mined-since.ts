/**
 * Trades that were mined during a submission. A refusal in that submission may have been computed before their block:
 * shares that a trader bought a moment ago may have been missing in the simulation and be there when the answer
 * arrives. So these trades count as in flight when the refusal is judged, unless they have failed, or the refusal was
 * computed at their block or later.
 */

import type { TradeToSettle } from '#domain/trade.ts'
import type { SettlementState } from './state.ts'

/**
 * Forgets the trades of earlier submissions; called when one begins, because its simulation includes their blocks.
 */
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

/** Removes a trade that has failed, because it will not bring any tokens. */
export function forgetMined({ older }: SettlementState, { tradeId }: TradeToSettle): void {
  older.minedSince.delete(tradeId)
}
