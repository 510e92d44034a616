/**
 * Traces of trades in settlement: one span ends when the transaction is sent, another when the trade is confirmed or
 * fails.
 */

import type { TradeId } from '#domain/ids.ts'
import type { TradeReport } from '#protocol/market.ts'
import type { TradeTrace } from '#protocol/projector.ts'
import type { Tracer } from '#runtime/trace.ts'

const TRADES_MAX = 10_000

type TracedTrade = { readonly traceparents: Set<string>; fromMs: number }

export function makeSettlementTraces(tracer: Tracer | undefined) {
  const trades = new Map<TradeId, TracedTrade>()

  function received(traces: readonly TradeTrace[]): void {
    if (tracer === undefined) return
    for (const { tradeId, traceparent } of traces) {
      const known = trades.get(tradeId) ?? { traceparents: new Set(), fromMs: tracer.nowMs() }
      known.traceparents.add(traceparent)
      trades.set(tradeId, known)
      const [oldest] = trades.keys()
      if (trades.size > TRADES_MAX && oldest !== undefined) trades.delete(oldest)
    }
  }

  /** Ends a span of the trade with each report to its market. Drops the trace when the trade is confirmed or fails. */
  function reported({ tradeId, status, txHash, reason }: TradeReport): void {
    const trade = trades.get(tradeId)
    if (tracer === undefined || trade === undefined) return
    const name = SPANS[status]
    if (name === undefined) return
    const toMs = tracer.nowMs()
    const attributes = {
      ...{ 'sibyl.trade.id': tradeId, 'sibyl.transaction.hash': txHash },
      ...(reason === '' ? {} : { 'sibyl.reason': reason }),
    }
    for (const traceparent of trade.traceparents) {
      const span = { fromMs: trade.fromMs, toMs, attributes, failed: status === 'failed' }
      tracer.add(traceparent, name, span)
    }
    trade.fromMs = toMs
    if (status === 'confirmed' || status === 'failed') trades.delete(tradeId)
  }

  return { received, reported }
}

const SPANS: Partial<Record<TradeReport['status'], string>> = {
  submitted: 'settle',
  confirmed: 'confirm',
  failed: 'fail',
}
