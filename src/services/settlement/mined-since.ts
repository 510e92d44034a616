/**
 * What came into a block while an examination was under way. A refusal may be older than that block: who sells
 * what he has just bought lacked it when the question was asked, and has it by the time of the answer. So those
 * trades count as still on their way when the refusal is judged, unless they have failed, and what was refused is
 * examined again.
 */

import type { TradeToSettle } from '#domain/trade.ts'
import type { Examination, SettlementState } from './state.ts'

/** An examination begins: what was in a block before, it sees. */
export function watchMined(state: SettlementState, examination: Examination): void {
  state.minedSince.set(examination, new Map())
}

export function noteMined(state: SettlementState, trade: TradeToSettle): void {
  for (const [examination, mined] of state.minedSince) {
    if (state.busy.has(examination)) mined.set(trade.tradeId, trade)
  }
}

/** It has failed, and brings nothing. */
export function unnoteMined(state: SettlementState, { tradeId }: TradeToSettle): void {
  for (const mined of state.minedSince.values()) mined.delete(tradeId)
}

export function minedDuring(
  state: SettlementState,
  examination: Examination,
): Iterable<TradeToSettle> {
  return state.minedSince.get(examination)?.values() ?? []
}
