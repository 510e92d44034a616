/** How trades change the balances of their traders. */

import { type FundsToken, outcomeToken, STABLECOIN } from '#domain/funds.ts'
import type { Address } from '#domain/ids.ts'
import { BUY } from '#domain/order.ts'
import type { Trade, TradeToSettle } from '#domain/trade.ts'
import { buyerAmount, buyerLeg, sellerAmount, sellerLeg } from '#domain/trade-legs.ts'
import type { SettlementState } from './state.ts'

type Amount = { readonly token: FundsToken; readonly amount: bigint }

export const SIDES = ['buyer', 'seller'] as const
export type TradeSide = (typeof SIDES)[number]

/** Returns what a trade takes from a side: dollars if its order buys, else shares. */
export function takenFrom(trade: Trade, side: TradeSide): Amount {
  return isPaying(trade, side) ? dollarsOf(trade, side) : sharesOf(trade, side)
}

function broughtTo(trade: Trade, side: TradeSide): Amount {
  return isPaying(trade, side) ? sharesOf(trade, side) : dollarsOf(trade, side)
}

/** Returns whether the side pays dollars: a buyer, unless it is a merge, and the seller of a mint. */
export function isPaying(trade: Trade, side: TradeSide): boolean {
  return legOf(trade, side).side === BUY
}

function legOf(trade: Trade, side: TradeSide) {
  return side === 'buyer' ? buyerLeg(trade) : sellerLeg(trade)
}

function dollarsOf(trade: Trade, side: TradeSide): Amount {
  const amount = side === 'buyer' ? buyerAmount(trade) : sellerAmount(trade)
  return { token: STABLECOIN, amount: BigInt(amount) }
}

function sharesOf(trade: Trade, side: TradeSide): Amount {
  const { marketId, size } = trade
  return { token: outcomeToken(marketId, legOf(trade, side).outcome), amount: BigInt(size) }
}

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
