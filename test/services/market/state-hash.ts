/** Returns the whole state of a market as one text, to compare two markets. */

import { NO, YES } from '#domain/order.ts'
import type { MarketState } from '#services/market/state.ts'

export function stateHashOf(state: MarketState): string {
  return [
    state.market.id,
    state.seq,
    state.updatedAtMs,
    state.unsettled,
    JSON.stringify(state.pending.rows()),
    JSON.stringify(state.held.rows(state).toSorted()),
    JSON.stringify(
      state.tagged
        .rows(state, state.updatedAtMs)
        .map((row) => JSON.stringify(row))
        .toSorted(),
    ),
    state.closed ?? 'open',
    state.books[YES].stateHash(),
    state.books[NO].stateHash(),
  ].join(':')
}
