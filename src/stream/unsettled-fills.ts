/**
 * Tracks which session orders have unsettled fills. Such an order may be filled and still return if a fill fails, so it
 * is held until all fills have ended. It follows market events; fills matched before a missed event are forgotten with
 * the order.
 */

import { type OrderHash, type TradeId, tradeId } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { BUY } from '#domain/order.ts'

type UnsettledFills = {
  /** Returns the orders that have ended for good: filled, with every fill decided. */
  followed(event: MarketEvent, held: Pick<ReadonlyMap<OrderHash, unknown>, 'has'>): OrderHash[]
  isUnsettled(orderHash: OrderHash): boolean
  forget(orderHash: OrderHash): void
}

/** Returns the session orders of a trade. */
type HeldSides = { readonly buy: OrderHash | undefined; readonly sell: OrderHash | undefined }

export function makeUnsettledFills(): UnsettledFills {
  const orders = new Map<OrderHash, { readonly trades: Set<TradeId>; filled: boolean }>()
  const trades = new Map<TradeId, HeldSides>()

  function add(orderHash: OrderHash | undefined, id: TradeId): void {
    if (orderHash === undefined) return
    const order = orders.get(orderHash) ?? { trades: new Set<TradeId>(), filled: false }
    orders.set(orderHash, order)
    order.trades.add(id)
  }

  /** Applies the chain's decision; returns whether the order has nothing left to wait for. */
  function end(orderHash: OrderHash | undefined, id: TradeId): boolean {
    const order = orderHash === undefined ? undefined : orders.get(orderHash)
    if (orderHash === undefined || order === undefined) return false
    order.trades.delete(id)
    if (order.trades.size > 0) return false
    orders.delete(orderHash)
    return order.filled
  }

  function endBoth(id: TradeId, comesBack: { buy: boolean; sell: boolean }): OrderHash[] {
    const ended: OrderHash[] = []
    const sides = trades.get(id)
    for (const side of ['buy', 'sell'] as const) {
      const orderHash = sides?.[side]
      if (end(orderHash, id) && !comesBack[side] && orderHash !== undefined) ended.push(orderHash)
    }
    trades.delete(id)
    return ended
  }

  return {
    followed(event, held) {
      switch (event.type) {
        case 'OrdersMatched': {
          const { taker, fills, marketId, seq } = event
          const known = (orderHash: OrderHash) => (held.has(orderHash) ? orderHash : undefined)
          const own = known(taker.orderHash)
          for (const [index, { makerHash }] of fills.entries()) {
            const maker = known(makerHash)
            if (own === undefined && maker === undefined) continue
            const id = tradeId(marketId, seq, index)
            const [buy, sell] = taker.side === BUY ? [own, maker] : [maker, own]
            trades.set(id, { buy, sell })
            add(own, id)
            add(maker, id)
          }
          return []
        }
        case 'OrderClosed': {
          const order = orders.get(event.orderHash)
          if (order !== undefined) order.filled = event.reason === 'filled'
          return []
        }
        case 'OrderRested': {
          const order = orders.get(event.orderHash)
          if (order !== undefined) order.filled = false
          return []
        }
        case 'TradeConfirmed':
          return endBoth(event.tradeId, { buy: false, sell: false })
        case 'TradeFailed': {
          // The side that was not at fault returns, unless it has expired.
          const { fault, excused } = event
          const buy = fault === 'seller' || fault === 'none'
          const sell = (fault === 'buyer' || fault === 'none') && excused === undefined
          return endBoth(event.tradeId, { buy, sell })
        }
        default:
          return []
      }
    },
    isUnsettled: (orderHash) => orders.has(orderHash),
    forget(orderHash) {
      for (const id of orders.get(orderHash)?.trades ?? []) {
        const sides = trades.get(id)
        const other = sides?.buy === orderHash ? sides.sell : sides?.buy
        if (other === undefined || !orders.has(other)) trades.delete(id)
      }
      orders.delete(orderHash)
    },
  }
}
