/**
 * One request on its way to one answer. It is over exactly once: answered, aborted by the client, or
 * handed to a route that writes by itself. From then on no code may touch `res`. That is a rule of
 * uWebSockets.js, and breaking it ends the process, so `phase` is asked before every touch after an
 * await.
 */

import type { HttpResponse } from 'uWebSockets.js'
import { performance } from 'node:perf_hooks'
import { isRejection, type Rejection } from '#domain/rejection.ts'
import { monotonicMs } from '#runtime/clock.ts'
import type { StageMeter } from '#runtime/stage-meter.ts'
import { type CompiledRoute, headOf, JSON_TYPE } from './compiled-route.ts'
import type { Cors } from './cors.ts'
import { entityTag, namesTag } from './entity-tag.ts'
import { ERRORS, errorBody, sentenceOf } from './errors.ts'
import { writeJson } from './json.ts'
import { record } from './meters.ts'
import type { Answer, Principal, RawReply, Responses } from './route.ts'
import { statusLine } from './status-line.ts'
import { serverTiming, type WriteStages } from './write-stages.ts'

/** What a rate limit says: whether the request may pass, and the lines its answer carries. */
export type LimitVerdict = {
  readonly allowed: boolean
  /** True if the address goes on sending although more and more of its requests are refused. */
  readonly insists?: boolean
  readonly headers: Readonly<Record<string, string>>
}

type CallRequest = {
  path: unknown
  query: unknown
  body: unknown
  readonly requestId: string
  readonly deadlineAtMs: number
  readonly headers: Record<string, string>
  readonly ip: string
  principal: Principal | undefined
  readonly stages: WriteStages | undefined
}

export type Call = {
  readonly res: HttpResponse
  readonly compiled: CompiledRoute
  readonly request: CallRequest
  readonly isHead: boolean
  /** True if no proxy stands between the client and this connection. */
  readonly isDirect: boolean
  readonly startedAtMs: number
  /** The page's origin where it may read the answer, else ''. */
  readonly origin: string
  readonly authorization: string
  /** `If-None-Match`, where the route's answers have tags; else ''. */
  readonly ifNoneMatch: string
  /** As they came, until validation turns them into values. */
  readonly rawPath: readonly string[]
  readonly rawQuery: string
  /** A body that waits for its sender to be known before it is parsed. */
  bytes: Buffer | undefined
  /** When its body began to be parsed, where that is of interest. */
  parseFromMs: number
  /** Multiple of its route's cost that it has paid. */
  timesPaid: number
  phase: 'open' | 'refused' | 'reading' | 'handling' | 'sending' | 'over'
  /** Whether an abort handler is attached and the request counts as in flight. */
  held: boolean
  closeAfter: boolean
  verdict: LimitVerdict | undefined
  onGone: (() => void) | undefined
}

/** Bodies up to here are copied by the library at once; larger ones are sent as the client reads. */
const COPIED_BYTES_MAX = 64 * 1024

export type Sender = {
  readonly sendRejection: (
    call: Call,
    rejection: Rejection,
    headers?: Readonly<Record<string, string>>,
  ) => void
  /** Sends what a handler has answered. */
  readonly send: (call: Call, answer: Answer<Responses>) => void
  readonly sendRaw: (call: Call, reply: RawReply) => void
  readonly writeHead: (call: Call, status: number, head: string) => void
}

/**
 * All functions must run corked: inside the request handler, a data callback, or `res.cork`. An
 * answer that cannot leave at once is held; `release` is told when what was held is over.
 */
export function makeSender(options: {
  readonly cors: Cors
  readonly hold: (call: Call) => void
  readonly release: (call: Call) => void
  readonly draining: () => boolean
  readonly meter: StageMeter | undefined
  /** Charges for the answer; if false, the request has already been refused. */
  readonly pays: (call: Call, bytes: number) => boolean
  /** Is called after each answer. */
  readonly answered: (call: Call, status: number, ms: number) => void
}): Sender {
  const { cors, hold, release, draining, meter } = options

  function writeHead(call: Call, status: number, head: string): void {
    const { res, request } = call
    // 200 is what the library writes by itself.
    if (status !== 200) res.writeStatus(statusLine(status))
    res.writeHeader('content-type', head)
    res.writeHeader('x-request-id', request.requestId)
    if (cors.byOrigin && call.origin !== '') {
      res.writeHeader('access-control-allow-origin', call.origin)
    }
    const { verdict } = call
    if (verdict !== undefined) writeLines(res, verdict.headers)
    if (request.stages !== undefined) tellStages(call, request.stages)
  }

  /** The last stage ends here, where the answer is written. */
  function tellStages({ res, startedAtMs }: Call, stages: WriteStages): void {
    if (stages.answerSentAtMs >= 0) {
      stages.answer = Math.max(0, monotonicMs() - stages.answerSentAtMs)
      meter?.record('answer', stages.answer)
    }
    if (stages.asked) {
      res.writeHeader('server-timing', serverTiming(stages, performance.now() - startedAtMs))
    }
  }

  function finished(call: Call, status: number): void {
    call.phase = 'over'
    if (call.held) release(call)
    const ms = performance.now() - call.startedAtMs
    record(call.compiled.meter, status, ms / 1_000)
    options.answered(call, status, ms)
  }

  function sendRaw(call: Call, reply: RawReply): void {
    const { res, compiled } = call
    const { status, raw, contentType, headers } = reply
    const isJson = contentType === undefined || contentType === JSON_TYPE
    const head = isJson ? compiled.jsonHead : headOf(compiled, contentType)
    // Before the first byte is written, so that a bad line can still become a clean 500.
    if (headers !== undefined) checkLines(headers)
    writeHead(call, status, head)
    if (headers !== undefined) writeLines(res, headers)
    const closes = call.closeAfter || draining()
    if (call.isHead || status === 204 || status === 304) {
      // Given any argument, the library announces a length of its own and waits for the body; so
      // the true length is written by hand, and such an answer cannot close its connection.
      if (call.isHead) res.writeHeader('content-length', String(Buffer.byteLength(raw)))
      res.endWithoutBody()
    } else if (raw.length > COPIED_BYTES_MAX && !closes) {
      sendInPieces(call, status, typeof raw === 'string' ? Buffer.from(raw) : raw)
      return
    } else res.end(raw, closes)
    finished(call, status)
  }

  /** Keeps one copy of a large body however slowly it is read. */
  function sendInPieces(call: Call, status: number, bytes: Uint8Array): void {
    const { res } = call
    hold(call)
    call.phase = 'sending'
    const [, done] = res.tryEnd(bytes, bytes.length)
    if (done) {
      finished(call, status)
      return
    }
    res.onWritable((offset) => {
      const [flushed, sent] = res.tryEnd(bytes.subarray(offset), bytes.length)
      if (sent) finished(call, status)
      return flushed
    })
  }

  function sendJson(
    call: Call,
    status: number,
    body: unknown,
    headers: Readonly<Record<string, string>> | undefined,
  ): void {
    const raw = written(body)
    sendRaw(call, headers === undefined ? { status, raw } : { status, raw, headers })
  }

  function send(call: Call, answer: Answer<Responses>): void {
    if (isRejection(answer)) {
      sendRejection(call, answer)
      return
    }
    const { status, headers } = answer
    const reply: RawReply =
      'raw' in answer
        ? answer
        : { status, raw: written(answer.body), ...(headers === undefined ? {} : { headers }) }
    if (call.compiled.route.revalidates === true && status === 200) sendTagged(call, reply)
    else sendPaid(call, reply)
  }

  function sendPaid(call: Call, reply: RawReply): void {
    if (options.pays(call, reply.raw.length)) sendRaw(call, reply)
  }

  function sendTagged(call: Call, reply: RawReply): void {
    // A route that knows its answer's version spares the hashing.
    const etag = reply.headers?.etag ?? entityTag(reply.raw)
    const headers = { ...reply.headers, etag }
    if (namesTag(call.ifNoneMatch, etag)) sendRaw(call, { ...reply, status: 304, raw: '', headers })
    else sendPaid(call, { ...reply, headers })
  }

  function sendRejection(
    call: Call,
    rejection: Rejection,
    headers?: Readonly<Record<string, string>>,
  ): void {
    const { status, retryAfterSec: usual } = ERRORS[rejection.rejected]
    const retryAfterSec = usual === undefined ? undefined : (rejection.retryAfterSec ?? usual)
    const shape = call.compiled.route.errorBody ?? errorBody
    const body = shape(rejection, sentenceOf(rejection))
    const retry =
      retryAfterSec === undefined || call.verdict?.headers['retry-after'] !== undefined
        ? status === 401
          ? { ...headers, 'www-authenticate': 'Bearer' }
          : headers
        : { ...headers, 'retry-after': String(retryAfterSec) }
    sendJson(
      call,
      status,
      status === 500 ? { ...body, requestId: call.request.requestId } : body,
      retry,
    )
  }

  return { sendRejection, send, sendRaw, writeHead }
}

function written(body: unknown): string {
  return body === undefined ? '' : writeJson(body)
}

const LINE_BREAK = /[\r\n\0]/

/** A line break in a header would end it early; a caller that let it come this far has a bug. */
function checkLines(lines: Readonly<Record<string, string>>): void {
  for (const name in lines) {
    if (LINE_BREAK.test(lines[name]!)) throw new TypeError(`the value of ${name} breaks the line`)
  }
}

function writeLines(res: HttpResponse, lines: Readonly<Record<string, string>>): void {
  for (const name in lines) res.writeHeader(name, lines[name]!)
}
