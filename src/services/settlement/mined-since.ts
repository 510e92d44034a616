/**
 * Tracks trades that were mined during a submission. A refusal in that submission may have been computed before the
 * block of these trades. For example, the simulation may miss shares that a trader has just bought, although a block
 * contains the purchase when the simulation's answer arrives. So these trades count as in flight when the refusal is
 * judged. Exceptions are trades that have failed, and refusals computed at the block of the trade or later.
 */

import type { TradeToSettle } from '#domain/trade.ts'
import type { SettlementState } from './state.ts'

/**
 * Forgets the trades of earlier submissions. Called when a submission begins, because the new simulation includes the
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
