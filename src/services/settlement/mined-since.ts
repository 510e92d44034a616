/**
 * Tracks trades that were mined during a submission. The simulation of that submission may have run before the block of
 * these trades. For example, it may miss shares that a trader has just bought. So when a refusal is judged, these
 * trades still count as in flight. There are two exceptions: the trade has failed, or the refusal was computed at the
 * trade's block or later.
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
