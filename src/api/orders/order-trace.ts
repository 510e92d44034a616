/** Traces of orders that share a request: each order of a batch or of a WebSocket connection has its own span. */

import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import { ERRORS } from '#http/errors.ts'
import { newWriteStages, traceMarket, type WriteStages } from '#http/write-stages.ts'
import type { Tracer } from '#runtime/trace.ts'

/** Starts the span of one order of a traced request; undefined if the request is not traced. */
export function orderStages(request: WriteStages | undefined): WriteStages | undefined {
  const span = request?.span?.child('order')
  return span === undefined ? undefined : newWriteStages(false, span)
}

/** Ends the span of an order with its answer; `fromMs` is the time at which the span began. */
export function endOrderTrace(
  stages: WriteStages | undefined,
  fromMs: number,
  answer: object | Rejection,
): void {
  if (stages?.span === undefined) return
  traceMarket(stages, fromMs)
  const isRefused = isRejection(answer)
  const { orderHash } = answer as { readonly orderHash?: string }
  stages.span.end(
    {
      'sibyl.result': isRefused ? answer.rejected : 'accepted',
      ...(orderHash === undefined ? {} : { 'sibyl.order.hash': orderHash }),
    },
    isRefused && ERRORS[answer.rejected].status >= 500,
  )
}

/** Runs a request of the stream. If the request is traced, its span ends with the answer. */
export function traced(
  tracer: Tracer | undefined,
  { op, traceparent = '' }: { readonly op: string; readonly traceparent?: string },
  work: (stages: WriteStages | undefined) => Promise<object>,
): Promise<object> {
  const span = tracer?.begin(`stream ${op}`, traceparent)
  if (span === undefined) return work(undefined)
  const stages = newWriteStages(false, span)
  const fromMs = performance.now()
  let answer: object = reject('INTERNAL')
  return work(stages)
    .then((done) => {
      answer = done
      return done
    })
    .finally(() => endOrderTrace(stages, fromMs, answer))
}
