/**
 * A hold: while the relayer revokes an approval or an allowance for a trader, the market threads refuse the trader's
 * new orders that would need it. The answer to a hold contains the needs of the trader's open orders and unsettled
 * trades. No such order can be added afterwards, so these needs stay complete while the relayer decides.
 */

import type { Address, TradeId } from './ids.ts'

/**
 * Kinds of orders that a hold refuses. `permit-buys` are buys with a permit, whose nonce is the one that the relayed
 * operation uses.
 */
export type HeldOrders = 'sells' | 'buys' | 'permit-buys'

/** All kinds of orders that are refused for a trader; an empty list lifts the hold. */
export type TraderHold = {
  readonly chainId: number
  readonly trader: Address
  readonly orders: readonly HeldOrders[]
  readonly untilMs: number
  /** True for a renewal: the relayer has the needs already, so they are not computed again. */
  readonly again?: true
}

/** Number of unsettled trades, and the oldest ones. */
export type UnsettledTrades = { readonly count: number; readonly tradeIds: readonly TradeId[] }

/** Needs of a trader's open orders and unsettled trades on a chain. */
export type TraderNeeds = {
  readonly openBuys: number
  readonly openSells: number
  /** Allowance that the buys need, in millionths of the stablecoin. */
  readonly openCost: bigint
  readonly unsettledCost: bigint
  readonly buys: UnsettledTrades
  readonly sells: UnsettledTrades
}

export const NO_NEEDS: TraderNeeds = {
  openBuys: 0,
  openSells: 0,
  openCost: 0n,
  unsettledCost: 0n,
  buys: { count: 0, tradeIds: [] },
  sells: { count: 0, tradeIds: [] },
}

/** Adds up the answers of two market threads. */
export function addNeeds(one: TraderNeeds, other: TraderNeeds): TraderNeeds {
  const trades = (a: UnsettledTrades, b: UnsettledTrades): UnsettledTrades => ({
    count: a.count + b.count,
    tradeIds: [...a.tradeIds, ...b.tradeIds],
  })
  return {
    openBuys: one.openBuys + other.openBuys,
    openSells: one.openSells + other.openSells,
    openCost: one.openCost + other.openCost,
    unsettledCost: one.unsettledCost + other.unsettledCost,
    buys: trades(one.buys, other.buys),
    sells: trades(one.sells, other.sells),
  }
}
