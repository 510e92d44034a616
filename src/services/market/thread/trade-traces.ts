/**
 * Traces of sampled orders, in memory. At most 10,000 traces are kept; the oldest are dropped, and a restart drops all.
 * When a sampled order matches, on arrival or after it has rested, its trace is sent with the trade to the threads that
 * read the log.
 */

import type { MarketId, OrderHash, TradeId } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { tradesOf } from '#domain/match-trades.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import type { TradeTrace } from '#protocol/projector.ts'
import type { Message } from '#runtime/actor.ts'

const ORDERS_MAX = 10_000

export type OrderTraces = {
  /** Stores the traces of a batch's orders. */
  placed(batch: readonly Message<MarketThreadProtocol>[]): void
  /** Returns the traces of the trades in these durable events; undefined if no trade has a trace. */
  tradesIn(events: readonly MarketEvent[]): TradeTrace[] | undefined
}

export function makeOrderTraces(
  placeOf: (marketId: MarketId) => { readonly partition: number; readonly offset: number },
  nowMs: () => number,
): OrderTraces {
  const traces = new Map<OrderHash, string>()

  function tracesOf(hashes: readonly OrderHash[]): string[] {
    return hashes.flatMap((hash) => traces.get(hash) ?? [])
  }

  return {
    placed(batch) {
      for (const command of batch) {
        if (command.type !== 'PlaceOrder' || command.message.trace === undefined) continue
        traces.set(command.message.order.orderHash, command.message.trace)
        if (traces.size <= ORDERS_MAX) continue
        const [oldest] = traces.keys()
        if (oldest !== undefined) traces.delete(oldest)
      }
    },
    tradesIn(events) {
      if (traces.size === 0) return undefined
      const found: TradeTrace[] = []
      for (const event of events) {
        if (event.type === 'OrderClosed') traces.delete(event.orderHash)
        if (event.type !== 'OrdersMatched') continue
        const add = (tradeId: TradeId, traceparent: string) =>
          found.push({ tradeId, traceparent, ...placeOf(event.marketId), durableAtMs: nowMs() })
        for (const { tradeId, buyOrderHash, sellOrderHash } of tradesOf(event)) {
          for (const trace of tracesOf([buyOrderHash, sellOrderHash])) add(tradeId, trace)
        }
      }
      return found.length === 0 ? undefined : found
    },
  }
}
