/**
 * Tracks trades that a block settled while a submission was in progress. The submission may have run its simulation
 * before that block. The simulation may then miss, for example, shares that a trader has just bought. So these trades
 * still count as in flight when settlement decides whether a refused trade waits for older trades. A trade does not
 * count if it has failed, or if the refusal was computed at the trade's block or later.
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
