/** Computes how trades change the balances of their traders. */

import { type FundsToken, STABLECOIN } from '#domain/funds.ts'
import type { Address } from '#domain/ids.ts'
import type { Trade, TradeToSettle } from '#domain/trade.ts'
import type { SettlementState } from './state.ts'
import { broughtTo, SIDES, takenFrom } from './trade-sides.ts'

/**
 * Name under which the allowance is counted like a token. The allowance is the amount of dollars that the settlement
 * contract may take from a trader. Each payment uses some of it.
 */
export const ALLOWANCE = 'allowance'

/**
 * Returns by how much a trade changes a trader's balance of a token. For `ALLOWANCE`, returns the change of the
 * trader's allowance.
 */
export function changeOf(
  trade: Trade,
  trader: Address,
  token: FundsToken | typeof ALLOWANCE,
): bigint {
  let change = 0n
  for (const side of SIDES) {
    if (trade[side] !== trader) continue
    const [taken, brought] = [takenFrom(trade, side), broughtTo(trade, side)]
    if (taken.token === (token === ALLOWANCE ? STABLECOIN : token)) change -= taken.amount
    if (brought.token === token) change += brought.amount
  }
  return change
}

/** Returns trades whose transaction is sent but in no block yet. */
export function unminedTrades({ flight, trades }: SettlementState): TradeToSettle[] {
  return [...flight.batches.values()]
    .filter(({ mined, ended }) => !mined && !ended)
    .flatMap(({ tradeIds }) => tradeIds.flatMap((tradeId) => trades.get(tradeId)?.trade ?? []))
}
