/** Traces of trades in the store: a span ends when the trade is in the database. */

import type { TradeTrace } from '#protocol/projector.ts'
import type { Tracer } from '#runtime/trace.ts'

const WAITING_MAX = 10_000

export function makeProjectionTraces(tracer: Tracer | undefined) {
  let waiting: TradeTrace[] = []
  return {
    received(traces: readonly TradeTrace[]): void {
      if (tracer !== undefined && waiting.length < WAITING_MAX) waiting.push(...traces)
    },
    /** Ends the spans of trades up to this offset; called when the database has all events up to the offset. */
    projected(partition: number, offset: number): void {
      if (tracer === undefined || waiting.length === 0) return
      const isWritten = (trace: TradeTrace) =>
        trace.partition === partition && trace.offset <= offset
      const toMs = tracer.nowMs()
      for (const { traceparent, tradeId, durableAtMs } of waiting.filter(isWritten)) {
        const attributes = { 'sibyl.trade.id': tradeId }
        tracer.add(traceparent, 'project', { fromMs: durableAtMs, toMs, attributes })
      }
      waiting = waiting.filter((trace) => !isWritten(trace))
    },
  }
}
