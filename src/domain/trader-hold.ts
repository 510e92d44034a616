/**
 * A hold makes the market threads reject new orders of a trader that depend on an approval, an allowance or a permit.
 * The relayer sets the hold before it sends an operation that can take one of these away. Each market thread answers
 * with the trader's needs: the numbers of open orders and unsettled trades, and the allowance that they need. During
 * the hold, no new order can add to these needs while the relayer decides whether to send the operation.
 */

import type { Address, TradeId } from './ids.ts'

/**
 * Kinds of orders that are rejected while the relayer sends an operation of the trader. `permit-buys`: buys with a
 * permit. The operation uses up the owner's next permit nonce, so a permit with the same nonce would become invalid.
 */
export type HeldOrders = 'sells' | 'buys' | 'permit-buys'

/** Sets a trader's hold. `orders` contains all kinds of the trader's orders to reject; an empty list lifts the hold. */
export type TraderHold = {
  readonly chainId: number
  readonly trader: Address
  readonly orders: readonly HeldOrders[]
  readonly untilMs: number
  /**
   * True if the relayer already has the trader's needs, for example when it renews a hold. The market threads then do
   * not compute the needs again.
   */
  readonly again?: true
}

/** Number of unsettled trades, and the ids of the oldest trades. */
export type UnsettledTrades = { readonly count: number; readonly tradeIds: readonly TradeId[] }

/** Open orders and unsettled trades of a trader on a chain: their numbers and the allowance that they need. */
export type TraderNeeds = {
  readonly openBuys: number
  readonly openSells: number
  /** Allowance that the open buys need, in millionths of the stablecoin. */
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
