/**
 * Collapses a batch before it is written, so that each row is written at most once. Changes of a row that the batch
 * inserts are merged into the inserted row. Several changes of an older row become one change. The function is pure and
 * does not change the batch.
 *
 * Example: a resting order that is filled five times and then closed becomes one update. A new order that is filled at
 * once becomes one insert.
 */

import type { OrderHash, TradeId } from '#domain/ids.ts'
import type { FaultySide, TradeStatus } from '#domain/trade.ts'
import type { OrderChange, OrderRow, ProjectionBatch, TradeChange, TradeRow } from './rows.ts'

/**
 * State of a trade. For a new trade, `attempts` counts all submissions; for a stored trade, only the additional ones.
 */
type TradeState = {
  readonly status: TradeStatus
  /** Hash of the transaction; empty if there is none, or if the stored hash must not change. */
  readonly txHash: string
  readonly reason: string
  readonly fault?: FaultySide
  readonly attempts: number
  readonly atMs: number
}

export type CollapsedBatch = {
  readonly orders: readonly OrderRow[]
  readonly orderChanges: readonly OrderChange[]
  readonly trades: readonly (TradeRow & { readonly state: TradeState })[]
  readonly tradeChanges: readonly (TradeState & { readonly tradeId: TradeId })[]
}

export function collapse(
  batch: Pick<ProjectionBatch, 'orders' | 'orderChanges' | 'trades' | 'tradeChanges'>,
): CollapsedBatch {
  const orderChanges = new Map<OrderHash, OrderChange>()
  for (const change of batch.orderChanges) orderChanges.set(change.orderHash, change)
  const orders = batch.orders.map((row) => {
    const change = orderChanges.get(row.order.orderHash)
    if (change === undefined) return row
    orderChanges.delete(row.order.orderHash)
    const { status, remaining, seq, atMs } = change
    return { ...row, status, remaining, seq, atMs }
  })

  const tradeStates = new Map<TradeId, TradeState>()
  for (const change of batch.tradeChanges) {
    tradeStates.set(change.tradeId, advance(tradeStates.get(change.tradeId), change))
  }
  const trades = batch.trades.map((trade) => {
    const state = tradeStates.get(trade.tradeId)
    tradeStates.delete(trade.tradeId)
    return { ...trade, state: state ?? matched(trade) }
  })

  return {
    orders,
    orderChanges: [...orderChanges.values()],
    trades,
    tradeChanges: [...tradeStates].map(([tradeId, state]) => ({ ...state, tradeId })),
  }
}

function matched(trade: TradeRow): TradeState {
  return { status: 'matched', txHash: '', reason: '', attempts: 0, atMs: trade.matchedAtMs }
}

function advance(before: TradeState | undefined, change: TradeChange): TradeState {
  return {
    status: change.status,
    txHash: change.txHash === '' ? (before?.txHash ?? '') : change.txHash,
    reason: change.reason,
    ...(change.fault === undefined ? {} : { fault: change.fault }),
    attempts: (before?.attempts ?? 0) + (change.status === 'submitted' ? 1 : 0),
    atMs: change.atMs,
  }
}
