/**
 * Traces requests through the threads: one trace id covers everything from an HTTP request to the transaction that
 * settles its trade. A trace travels as a `traceparent` (W3C Trace Context): `00-<trace id>-<id of the parent
 * span>-01`.
 */

export type SpanAttributes = Readonly<Record<string, string | number>>

/**
 * The span of a request that is being traced. Times are values of `performance.now()` in the thread that made the span.
 */
export type OpenSpan = {
  /** Header that names this span as the parent of other spans. */
  readonly traceparent: string
  /** Adds a finished part of the request. */
  part(name: string, fromMs: number, toMs: number, attributes?: SpanAttributes): void
  /** Starts a child span, for example for one order of several. */
  child(name: string): OpenSpan
  end(attributes: SpanAttributes, failed?: boolean): void
}

export type Tracer = {
  /**
   * Starts the span of a request; returns undefined if the request is not sampled. `parent` is the request’s
   * `traceparent` header, or empty.
   */
  begin(name: string, parent: string): OpenSpan | undefined
  /** Adds a finished span; times are Unix milliseconds. */
  add(parent: string, name: string, span: TimedSpan): void
  /** Returns the machine’s time in Unix milliseconds, which may differ from the exchange’s own clock. */
  nowMs(): number
}

export type TimedSpan = {
  readonly fromMs: number
  readonly toMs: number
  readonly attributes?: SpanAttributes
  readonly failed?: boolean
}

type ParentSpan = {
  readonly traceId: string
  readonly spanId: string
  readonly isSampled: boolean
}

const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-|$)/
const HEADER_CHARS_MAX = 128

/** Parses a `traceparent` header of any version except ff; returns undefined if the header is invalid. */
export function parseTraceparent(header: string): ParentSpan | undefined {
  if (header.length > HEADER_CHARS_MAX || header.startsWith('ff')) return undefined
  const [, traceId, spanId, flags] = TRACEPARENT.exec(header) ?? []
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 }
}

export function traceparentOf(traceId: string, spanId: string): string {
  return `00-${traceId}-${spanId}-01`
}
