/** How trades change the balances of their traders. */

import { type FundsToken, outcomeToken, STABLECOIN } from '#domain/funds.ts'
import type { Address } from '#domain/ids.ts'
import { costCeil } from '#domain/money.ts'
import type { Trade, TradeToSettle } from '#domain/trade.ts'
import type { SettlementState } from './state.ts'

export function takenFrom(
  { marketId, outcome, price, size }: Trade,
  side: 'buyer' | 'seller',
): { readonly token: FundsToken; readonly amount: bigint } {
  return side === 'buyer'
    ? { token: STABLECOIN, amount: BigInt(costCeil(price, size)) }
    : { token: outcomeToken(marketId, outcome), amount: BigInt(size) }
}

/** The part of a trader's dollars that the settlement contract may take. Each buy uses some of it. */
export const ALLOWANCE = 'allowance'

/** Returns the change of the trader's token balance, or of the allowance, by a trade. */
export function changeOf(
  trade: Trade,
  trader: Address,
  token: FundsToken | typeof ALLOWANCE,
): bigint {
  const [cost, shares] = [takenFrom(trade, 'buyer'), takenFrom(trade, 'seller')]
  if (token === ALLOWANCE) return trade.buyer === trader ? -cost.amount : 0n
  let change = 0n
  if (trade.buyer === trader && shares.token === token) change += shares.amount
  if (trade.seller === trader && shares.token === token) change -= shares.amount
  if (trade.seller === trader && cost.token === token) change += cost.amount
  if (trade.buyer === trader && cost.token === token) change -= cost.amount
  return change
}

/** Returns trades that are sent and in no block yet. */
export function unminedTrades({ flight, trades }: SettlementState): TradeToSettle[] {
  return [...flight.batches.values()]
    .filter(({ mined, ended }) => !mined && !ended)
    .flatMap(({ tradeIds }) => tradeIds.flatMap((tradeId) => trades.get(tradeId)?.trade ?? []))
}
