/**
 * A hold: the market threads reject a trader's new orders that need an approval or allowance while the relayer revokes
 * it. A market thread answers a hold with the trader's needs: the numbers of open orders and unsettled trades, and the
 * allowance that they need. No new order can add to these needs while the relayer decides whether to revoke.
 */

import type { Address, TradeId } from './ids.ts'

/**
 * Kinds of orders that a hold rejects. `permit-buys`: buys with a permit, because that permit and the relayed operation
 * use the same nonce.
 */
export type HeldOrders = 'sells' | 'buys' | 'permit-buys'

/** Sets a trader's hold. `orders` contains all kinds of the trader's orders to reject; an empty list lifts the hold. */
export type TraderHold = {
  readonly chainId: number
  readonly trader: Address
  readonly orders: readonly HeldOrders[]
  readonly untilMs: number
  /**
   * True for a renewal of a hold. The market threads do not compute the trader's needs again, because the relayer
   * already has them.
   */
  readonly again?: true
}

/** Number of unsettled trades, and the ids of the oldest trades. */
export type UnsettledTrades = { readonly count: number; readonly tradeIds: readonly TradeId[] }

/** Open orders and unsettled trades of a trader on a chain: their numbers and the allowance that they need. */
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

/** Adds up the needs that two market threads returned. */
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
