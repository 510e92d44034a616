/** Computes the tokens and amounts that a trade takes from its two sides and brings to them. */

import { type FundsToken, outcomeToken, STABLECOIN } from '#domain/funds.ts'
import { BUY } from '#domain/order.ts'
import type { Trade } from '#domain/trade.ts'
import { buyerAmount, buyerLeg, sellerAmount, sellerLeg } from '#domain/trade-legs.ts'

type Amount = { readonly token: FundsToken; readonly amount: bigint }

export const SIDES = ['buyer', 'seller'] as const
export type TradeSide = (typeof SIDES)[number]

/** Returns the token and amount that a trade takes from a side: dollars if the side buys, otherwise shares. */
export function takenFrom(trade: Trade, side: TradeSide): Amount {
  return isPaying(trade, side) ? dollarsOf(trade, side) : sharesOf(trade, side)
}

/**
 * Returns the token and amount that a side must have. In a mint, both sides pay dollars. So if the same trader is on
 * both sides, the trader needs the sum of both amounts.
 */
export function neededBy(trade: Trade, side: TradeSide): Amount {
  const taken = takenFrom(trade, side)
  if (trade.buyer !== trade.seller) return taken
  const other = takenFrom(trade, side === 'buyer' ? 'seller' : 'buyer')
  const isShared = other.token === taken.token
  return isShared ? { ...taken, amount: taken.amount + other.amount } : taken
}

/** Returns the token and amount that a trade brings to a side. */
export function broughtTo(trade: Trade, side: TradeSide): Amount {
  return isPaying(trade, side) ? sharesOf(trade, side) : dollarsOf(trade, side)
}

/**
 * Returns whether the side pays dollars. The buyer pays dollars except in a merge; the seller pays dollars only in a
 * mint.
 */
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
