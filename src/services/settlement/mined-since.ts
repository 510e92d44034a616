/**
 * Trades that were mined during a submission. A refusal in that submission may have been computed before the block of
 * these trades. For example, shares that a trader bought a moment ago may be missing in the simulation, and be there
 * when its answer arrives. So these trades count as in flight when the refusal is judged, unless they have failed, or
 * the refusal was computed at their block or later.
 */

import type { TradeToSettle } from '#domain/trade.ts'
import type { SettlementState } from './state.ts'

/**
 * Forgets the trades of earlier submissions; called when a submission begins, because its simulation includes the
 * blocks of these trades.
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
