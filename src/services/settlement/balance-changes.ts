/** The changes of traders' balances by trades. */

import { type FundsToken, STABLECOIN } from '#domain/funds.ts'
import type { Address } from '#domain/ids.ts'
import type { Trade, TradeToSettle } from '#domain/trade.ts'
import type { SettlementState } from './state.ts'
import { broughtTo, SIDES, takenFrom } from './trade-sides.ts'

/** The part of a trader's dollars that the settlement contract may take. Each payment uses some of it. */
export const ALLOWANCE = 'allowance'

/** Returns the change of the trader's token balance, or of the allowance, by a trade. */
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

/** Returns trades that are sent and in no block yet. */
export function unminedTrades({ flight, trades }: SettlementState): TradeToSettle[] {
  return [...flight.batches.values()]
    .filter(({ mined, ended }) => !mined && !ended)
    .flatMap(({ tradeIds }) => tradeIds.flatMap((tradeId) => trades.get(tradeId)?.trade ?? []))
}
