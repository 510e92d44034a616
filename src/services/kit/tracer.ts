/**
 * Sends spans to an OpenTelemetry collector as OTLP over HTTP, in JSON. Without `SIBYL_TRACES_URL`, traces are off.
 * Spans wait in a bounded queue. Spans that the queue or the collector does not accept are dropped and counted, so
 * tracing never delays an order.
 */

import { Counter, type Registry } from 'prom-client'
import type { Log } from '#config/logging.ts'
import type { ThreadData } from '#config/thread-data.ts'
import {
  type OpenSpan,
  parseTraceparent,
  type SpanAttributes,
  type TimedSpan,
  type Tracer,
  traceparentOf,
} from '#runtime/trace.ts'

const QUEUED_MAX = 4_096
const SEND_MAX = 512
const SEND_EVERY_MS = 1_000
/** Maximum number of requests per second and thread that are traced because the client asks for it in a header. */
const ASKED_PER_SECOND_MAX = 10
const SERVER = 2
const INTERNAL = 1
const ERROR = 2

type Value = { readonly stringValue: string } | { readonly intValue: string }

type OtlpSpan = {
  readonly traceId: string
  readonly spanId: string
  /** Id of the parent span; absent for the first span of a trace. */
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes: readonly { readonly key: string; readonly value: Value }[]
  readonly status: { readonly code?: number }
}

/** External dependencies of a tracer: the machine's Unix time, and the collector of traces. */
export type TracerWorld = {
  readonly wallMs: () => number
  /** Difference between Unix time and this thread's `performance.now()`. */
  readonly originMs: number
  /** Resolves with the HTTP status of the answer. */
  readonly post: (url: string, body: string) => Promise<number>
}

type TracerKit = {
  readonly log: Pick<Log, 'info' | 'warn'>
  readonly registry: Registry
  every(ms: number, act: () => void): void
  readonly random: { bytes(count: number): Buffer }
}

/** Makes the tracer of a thread; returns undefined if traces are off. */
export function makeTracer(
  { settings, name }: Pick<ThreadData, 'settings' | 'name'>,
  kit: TracerKit,
  world: TracerWorld,
): Tracer | undefined {
  const { url, every } = settings.traces
  if (url === '') return undefined
  const { random, log } = kit
  const counted = spanCounter(kit.registry)
  const resource = {
    attributes: attributesOf({
      'service.name': settings.service.name,
      'service.instance.id': settings.cluster.node || settings.service.name,
      'sibyl.thread': name,
    }),
  }
  let queued: OtlpSpan[] = []
  let sending = false
  let away = false
  let requests = 0
  let asked = 0
  let askedInSecond = 0

  async function send(): Promise<void> {
    if (sending || queued.length === 0) return
    sending = true
    const spans = queued.slice(0, SEND_MAX)
    queued = queued.slice(SEND_MAX)
    const body = {
      resourceSpans: [{ resource, scopeSpans: [{ scope: { name: 'sibyl' }, spans }] }],
    }
    const why = await world.post(url, JSON.stringify(body)).then(
      (status) => (status >= 200 && status < 300 ? '' : `it answered ${status}`),
      (error: unknown) => String(error),
    )
    sending = false
    counted.inc({ result: why === '' ? 'sent' : 'dropped' }, spans.length)
    if (why !== '' && !away) log.warn({ why }, 'the collector of traces does not accept spans')
    if (why === '' && away) log.info({}, 'the collector of traces accepts spans again')
    away = why !== ''
  }
  kit.every(SEND_EVERY_MS, () => void send())

  function queue(span: OtlpSpan): void {
    if (queued.length >= QUEUED_MAX) counted.inc({ result: 'dropped' })
    else queued.push(span)
    if (queued.length >= SEND_MAX) void send()
  }

  /**
   * Returns whether a trace that a client requests by a header is within the rate limit. The rate is limited, because
   * any client can send the header.
   */
  function isAskedFor(): boolean {
    const second = Math.floor(world.wallMs() / 1_000)
    if (second !== askedInSecond) asked = 0
    askedInSecond = second
    return ++asked <= ASKED_PER_SECOND_MAX
  }

  const spanId = (): string => random.bytes(8).toString('hex')

  function add(parent: string, spanName: string, span: TimedSpan): void {
    const { traceId, spanId: parentSpanId } = parseTraceparent(parent) ?? {}
    if (traceId === undefined || parentSpanId === undefined) return
    queue(
      otlpSpan({ traceId, spanId: spanId(), parentSpanId, name: spanName, kind: INTERNAL }, span),
    )
  }

  function begin(spanName: string, header: string): OpenSpan | undefined {
    const parent = header === '' ? undefined : parseTraceparent(header)
    const isTurn = requests++ % every === 0
    if (!isTurn && !(parent?.isSampled === true && isAskedFor())) return undefined
    const traceId = parent?.traceId ?? random.bytes(16).toString('hex')
    return open(spanName, SERVER, traceId, parent?.spanId)
  }

  function open(name: string, kind: number, traceId: string, parentSpanId?: string): OpenSpan {
    const fromMs = world.wallMs()
    const own = {
      ...{ traceId, spanId: spanId(), name, kind },
      ...(parentSpanId === undefined ? {} : { parentSpanId }),
    }
    const traceparent = traceparentOf(traceId, own.spanId)
    const { originMs } = world
    return {
      traceparent,
      part(part, from, to, attributes = {}) {
        add(traceparent, part, { fromMs: originMs + from, toMs: originMs + to, attributes })
      },
      child: (part) => open(part, INTERNAL, traceId, own.spanId),
      end(attributes, failed = false) {
        queue(otlpSpan(own, { fromMs, toMs: world.wallMs(), attributes, failed }))
      },
    }
  }

  return { begin, add, nowMs: world.wallMs }
}

function spanCounter(registry: Registry): Counter<'result'> {
  return new Counter({
    name: 'sibyl_trace_spans_total',
    help: 'Spans of traces, by whether the collector accepted them',
    labelNames: ['result'],
    registers: [registry],
  })
}

function otlpSpan(
  about: Pick<OtlpSpan, 'traceId' | 'spanId' | 'parentSpanId' | 'name' | 'kind'>,
  { fromMs, toMs, attributes = {}, failed = false }: TimedSpan,
): OtlpSpan {
  return {
    ...about,
    startTimeUnixNano: nanosOf(fromMs),
    endTimeUnixNano: nanosOf(Math.max(fromMs, toMs)),
    attributes: attributesOf(attributes),
    status: failed ? { code: ERROR } : {},
  }
}

function attributesOf(attributes: SpanAttributes): OtlpSpan['attributes'] {
  return Object.entries(attributes).map(([key, value]) => ({
    key,
    value: typeof value === 'string' ? { stringValue: value } : { intValue: String(value) },
  }))
}

/** Converts milliseconds to nanoseconds, exact to the microsecond. */
function nanosOf(ms: number): string {
  return String(BigInt(Math.round(ms * 1_000)) * 1_000n)
}
