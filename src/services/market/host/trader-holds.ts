/**
 * Trader holds at a market thread. On request of the relayer, the thread refuses certain new orders of a trader for a
 * short time (`domain/trader-hold.ts`). One message of the relayer sets the hold. The thread answers with the needs
 * (the amounts of tokens) of the trader’s open orders and unsettled trades. The answer includes every earlier order,
 * and every later order is refused, so no order is missed.
 */

import { needOf } from '#domain/funds.ts'
import type { Address } from '#domain/ids.ts'
import { ORDERS_WEIGHED_MAX, TRADERS_HELD_MAX, TRADES_NAMED_MAX } from '#domain/limits.ts'
import type { PendingTrade } from '#domain/market-event.ts'
import { costCeil } from '#domain/money.ts'
import { BUY, type Outcome, SELL, type VerifiedOrder } from '#domain/order.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import { buyerLeg, sellerLeg } from '#domain/trade-legs.ts'
import {
  type HeldOrders,
  NO_NEEDS,
  type TraderHold,
  type TraderNeeds,
  type UnsettledTrades,
} from '#domain/trader-hold.ts'
import type { HoldProtocol } from '#protocol/market-host.ts'
import type { MarketState } from '../state.ts'
import { booksOf, type Hosts } from './open-orders.ts'

/** Stands for an unknown cost. It exceeds every allowance except an unlimited one. */
const COST_UNKNOWN = 2n ** 128n

type Held = Pick<TraderHold, 'orders' | 'untilMs'>

/** The parts of the market thread that are used here. */
type Host = Hosts & {
  readonly holds: TraderHolds
  readonly away: ReadonlyMap<number, string>
}

export class TraderHolds {
  readonly #held = new Map<string, Held>()

  /** Sets or lifts a hold. Returns false if the maximum number of traders already have a hold. */
  put({ chainId, trader, orders, untilMs }: TraderHold, nowMs: number): boolean {
    const key = keyOf(chainId, trader)
    this.#held.delete(key)
    if (orders.length === 0) return true
    if (this.#held.size >= TRADERS_HELD_MAX) this.#sweep(nowMs)
    if (this.#held.size >= TRADERS_HELD_MAX) return false
    this.#held.set(key, { orders, untilMs })
    return true
  }

  /** Returns why an order is refused for now; undefined if no hold applies. */
  flaw(
    chainId: number,
    { trader, side, permit }: Pick<VerifiedOrder, 'trader' | 'side' | 'permit'>,
    nowMs: number,
  ): Rejection | undefined {
    // Fast path: usually there is no hold.
    if (this.#held.size === 0) return undefined
    const held = this.#held.get(keyOf(chainId, trader))
    if (held === undefined || held.untilMs <= nowMs) return undefined
    const needs: readonly HeldOrders[] =
      side === SELL ? ['sells'] : permit === undefined ? ['buys'] : ['buys', 'permit-buys']
    if (!needs.some((kind) => held.orders.includes(kind))) return undefined
    return reject('ALLOWANCE_CHANGING', 'order.trader')
  }

  #sweep(nowMs: number): void {
    for (const [key, { untilMs }] of this.#held) if (untilMs <= nowMs) this.#held.delete(key)
  }
}

function keyOf(chainId: number, trader: Address): string {
  return `${chainId} ${trader}`
}

export function holdTrader(
  thread: Host,
  hold: TraderHold,
  { nowMs }: { readonly nowMs: number },
): TraderNeeds | Rejection {
  // While a partition cannot be opened, the needs in its markets are unknown, so the hold is refused.
  if (thread.away.size > 0 || !thread.holds.put(hold, nowMs)) return reject('OVERLOADED')
  return hold.again ? NO_NEEDS : needsOf(thread, hold, Math.floor(nowMs / 1_000))
}

function needsOf(
  thread: Host,
  { trader, chainId }: Pick<TraderHold, 'trader' | 'chainId'>,
  nowSec: number,
): TraderNeeds {
  let [weighed, openBuys, openSells, openCost, unsettledCost] = [0, 0, 0, 0n, 0n]
  for (const { book } of booksOf(thread, { trader, chainId })) {
    const orders = book.ordersOf(trader, ORDERS_WEIGHED_MAX - weighed)
    weighed += orders.length
    for (const { side, price, remaining, expiresAtSec } of orders) {
      if (expiresAtSec <= nowSec) continue
      if (side === BUY) {
        openBuys++
        openCost += BigInt(needOf({ side, price }, remaining))
      } else openSells++
    }
  }
  if (weighed >= ORDERS_WEIGHED_MAX) {
    // The trader may have more orders than were read: assume at least one sell and an unknown cost.
    openSells = Math.max(1, openSells)
    openCost = COST_UNKNOWN
  }
  const buys = new Named()
  const sells = new Named()
  for (const { state } of thread.markets.values()) {
    if (state.market.chainId !== chainId || !state.pending.has(trader)) continue
    for (const { tradeId, trade } of state.pending.of(trader, state.market.id)) {
      const { price, sellPrice, size } = trade
      const delivers = soldBy(trader, trade).length > 0
      if (delivers) sells.add(tradeId)
      const limits = [
        ...(trade.buyer === trader && trade.kind !== 'merge' ? [price] : []),
        ...(trade.seller === trader && trade.kind === 'mint' ? [sellPrice] : []),
      ]
      if (limits.length > 0) buys.add(tradeId)
      // If the limit price of a buy is not known, its cost is at most a dollar per share.
      for (const limit of limits) {
        unsettledCost += BigInt(limit === undefined ? size : costCeil(limit, size))
      }
    }
  }
  return { openBuys, openSells, openCost, unsettledCost, buys: buys.summary, sells: sells.summary }
}

export function unsettledSales(
  thread: Host,
  { marketId, trader, outcomes }: HoldProtocol['UnsettledSales']['takes'],
  { nowMs }: { readonly nowMs: number },
): (UnsettledTrades & { isOpen: boolean }) | Rejection {
  if (thread.away.size > 0) return reject('OVERLOADED')
  const state = thread.markets.get(marketId)?.state
  // A market without state has ended, all its trades are settled, and the thread has unloaded it.
  if (state === undefined) return { count: 0, tradeIds: [], isOpen: false }
  const sells = new Named()
  for (const { tradeId, trade } of state.pending.of(trader, marketId)) {
    if (soldBy(trader, trade).some((outcome) => outcomes.includes(outcome))) sells.add(tradeId)
  }
  return { ...sells.summary, isOpen: isOpen(state, nowMs) }
}

/** Returns the outcomes whose shares the trader delivers in this trade. */
function soldBy(trader: Address, trade: PendingTrade): Outcome[] {
  const legs = [
    ...(trade.buyer === trader ? [buyerLeg(trade)] : []),
    ...(trade.seller === trader ? [sellerLeg(trade)] : []),
  ]
  return legs.filter(({ side }) => side === SELL).map(({ outcome }) => outcome)
}

function isOpen({ closed, market }: MarketState, nowMs: number): boolean {
  return closed === undefined && Math.floor(nowMs / 1_000) < market.expiration
}

/** Counts trades, and collects the ids of the first `TRADES_NAMED_MAX` trades. */
class Named {
  #count = 0
  readonly #tradeIds: UnsettledTrades['tradeIds'][number][] = []

  add(tradeId: UnsettledTrades['tradeIds'][number]): void {
    this.#count++
    if (this.#tradeIds.length < TRADES_NAMED_MAX) this.#tradeIds.push(tradeId)
  }

  get summary(): UnsettledTrades {
    return { count: this.#count, tradeIds: this.#tradeIds }
  }
}
