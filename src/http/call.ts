/**
 * One request and its answer. A call ends exactly once: answered, aborted by the client, or handed to a route that
 * writes the response itself. After that no code may touch `res`. This is a rule of uWebSockets.js, and breaking it
 * ends the process, so check `phase` before every use after an await.
 */

import type { HttpResponse } from 'uWebSockets.js'
import { performance } from 'node:perf_hooks'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
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
import { serverTiming, traceMarket, type WriteStages } from './write-stages.ts'

/** Verdict of a rate limit: whether the request may pass, and the header lines of its answer. */
export type LimitVerdict = {
  readonly allowed: boolean
  /** True if the IP address keeps sending although its requests are refused. */
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
  /** True if the client is connected directly, without a proxy. */
  readonly isDirect: boolean
  readonly startedAtMs: number
  /** Origin of the page, if the page may read the answer; otherwise ''. */
  readonly origin: string
  readonly authorization: string
  /** `If-None-Match`, if the route's answers have tags; otherwise ''. */
  readonly ifNoneMatch: string
  /** Raw path parameters, before validation. */
  readonly rawPath: readonly string[]
  readonly rawQuery: string
  /** A body that is parsed only after its sender is authenticated. */
  bytes: Buffer | undefined
  /** Time at which parsing of the body started, if stages are measured. */
  parseFromMs: number
  /** Number of times that the route's cost has been charged. */
  timesPaid: number
  /** Bytes of a long answer that is being sent; 0 for other calls. */
  unreadBytes: number
  phase: 'open' | 'refused' | 'reading' | 'handling' | 'sending' | 'over'
  /**
   * True if the call was not answered within the library's callback: it has an abort handler and counts as in flight.
   */
  held: boolean
  closeAfter: boolean
  /**
   * True if it is uncertain where the next request on this connection starts. The connection is then closed after the
   * answer.
   */
  endsConnection: boolean
  verdict: LimitVerdict | undefined
  onGone: (() => void) | undefined
}

/**
 * Maximum size of a body that the library copies in one step. Larger bodies are sent in pieces, as the client reads
 * them.
 */
const COPIED_BYTES_MAX = 64 * 1024

const UNREAD = reject(
  'RATE_LIMITED',
  undefined,
  'the client at this IP address has not read its earlier answers yet: read these answers before you send more requests',
)

export type Sender = {
  readonly sendRejection: (
    call: Call,
    rejection: Rejection,
    headers?: Readonly<Record<string, string>>,
  ) => void
  /** Sends the answer of a handler. */
  readonly send: (call: Call, answer: Answer<Responses>) => void
  readonly sendRaw: (call: Call, reply: RawReply) => void
  readonly writeHead: (call: Call, status: number, head: string) => void
}

type SenderOptions = {
  readonly cors: Cors
  readonly hold: (call: Call) => void
  readonly release: (call: Call) => void
  readonly sending: (call: Call, bytes: number) => void
  /** Returns whether the IP address has too many unread bytes of long answers. */
  readonly isUnread: (ip: string) => boolean
  readonly draining: () => boolean
  readonly meter: StageMeter | undefined
  /** Charges for the answer. Returns false if the charge failed and the request has been refused instead. */
  readonly pays: (call: Call, bytes: number) => boolean
  /** Called after each answer. */
  readonly answered: (call: Call, status: number, ms: number) => void
}

/** Writes answers to the socket: heads, bodies, and large bodies in pieces. */
function makeWriter(options: SenderOptions): Pick<Sender, 'writeHead' | 'sendRaw'> {
  const { cors, hold, release, sending, draining, meter } = options

  function writeHead(call: Call, status: number, head: string): void {
    const { res, request } = call
    // The library writes 200 by default.
    if (status !== 200) res.writeStatus(statusLine(status))
    res.writeHeader('content-type', head)
    res.writeHeader('x-request-id', request.requestId)
    if (cors.byOrigin && call.origin !== '') {
      res.writeHeader('access-control-allow-origin', call.origin)
    }
    const { verdict } = call
    if (verdict !== undefined) writeLines(res, verdict.headers)
    if (request.stages !== undefined) reportStages(call, request.stages)
  }

  /** Ends the stage `answer`, and adds the header `Server-Timing` if the client asked for it. */
  function reportStages({ res, startedAtMs }: Call, stages: WriteStages): void {
    if (stages.answerSentAtMs >= 0) {
      stages.answer = Math.max(0, monotonicMs() - stages.answerSentAtMs)
      meter?.record('answer', stages.answer)
      traceMarket(stages, startedAtMs)
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

  /**
   * Sends the answer in the next turn of the event loop, and then closes the connection. The packet that ended the
   * request may contain further bytes. If the answer were sent now, the library would treat these bytes as another
   * request. While the answer is pending, the library closes the connection when it reads these bytes.
   */
  function sendLast(call: Call, reply: RawReply): void {
    call.endsConnection = false
    call.closeAfter = true
    hold(call)
    call.phase = 'handling'
    setImmediate(() => {
      if (call.phase === 'handling') call.res.cork(() => sendRaw(call, reply))
    })
  }

  function sendRaw(call: Call, reply: RawReply): void {
    if (call.endsConnection) {
      sendLast(call, reply)
      return
    }
    const { res, compiled } = call
    const { status, raw, contentType, headers } = reply
    const isJson = contentType === undefined || contentType === JSON_TYPE
    const jsonHead = status < 400 ? compiled.jsonHead : compiled.refusedHead
    const head = isJson ? jsonHead : headOf(compiled, contentType)
    // The headers are checked before the first byte is written, so that an invalid header can still become a clean 500.
    if (headers !== undefined) checkLines(headers)
    writeHead(call, status, head)
    if (headers !== undefined) writeLines(res, headers)
    const closes = call.closeAfter || draining()
    if (call.closeAfter && (call.isHead || status === 204 || status === 304)) {
      // `end` is used here because it can close the connection. It adds a content length of 0, which clients
      // ignore in an answer to HEAD, in a 204 and in a 304.
      res.end('', true)
    } else if (call.isHead || status === 204 || status === 304) {
      // `endWithoutBody` with an argument would write its own content length and wait for the body. So the content
      // length of a HEAD answer is written here, and no argument is passed.
      if (call.isHead) res.writeHeader('content-length', String(Buffer.byteLength(raw)))
      res.endWithoutBody()
    } else if (closes) res.end(raw, true)
    else {
      sendBody(call, status, raw)
      return
    }
    finished(call, status)
  }

  /**
   * Sends a body as fast as the client reads it. While the client has earlier answers to read, the library does not
   * buffer the body, and the call waits. If the client sends another request during this wait, the library closes the
   * connection. So a client that sends requests without reading answers cannot fill the memory.
   */
  function sendBody(call: Call, status: number, raw: RawReply['raw']): void {
    const { res } = call
    const body = typeof raw === 'string' && raw.length > COPIED_BYTES_MAX ? Buffer.from(raw) : raw
    const [, done] = res.tryEnd(body, Buffer.byteLength(body))
    if (done) {
      finished(call, status)
      return
    }
    const bytes = typeof body === 'string' ? Buffer.from(body) : body
    hold(call)
    call.phase = 'sending'
    sending(call, bytes.length)
    // All pieces are views of one buffer.
    res.onWritable((offset) => {
      const [flushed, sent] = res.tryEnd(bytes.subarray(offset), bytes.length)
      if (sent) finished(call, status)
      return flushed
    })
  }

  return { writeHead, sendRaw }
}

/**
 * Makes the sender. Call its functions only where the library joins writes (corks them): in the request handler, in a
 * data callback, or in `res.cork`. If an answer cannot be sent at once, its call counts as a request in flight.
 * `release` is called when the answer is finished.
 */
export function makeSender(options: SenderOptions): Sender {
  const { writeHead, sendRaw } = makeWriter(options)

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
    const { length } = reply.raw
    if (!options.pays(call, length)) return
    // A long answer stays in the front's memory until the client has read it. So it is refused if the IP address has
    // too many unread bytes.
    if (length > COPIED_BYTES_MAX && options.isUnread(call.request.ip)) sendRejection(call, UNREAD)
    else sendRaw(call, reply)
  }

  function sendTagged(call: Call, reply: RawReply): void {
    // If the route supplied a tag, the front does not hash the answer, and a 304 is free. Otherwise the answer was made
    // for this request only, so the client pays for it even if only a 304 is sent.
    const known = reply.headers?.etag
    const etag = known ?? entityTag(reply.raw)
    const headers = { ...reply.headers, etag }
    if (!namesTag(call.ifNoneMatch, etag)) sendPaid(call, { ...reply, headers })
    else if (known !== undefined || options.pays(call, reply.raw.length)) {
      sendRaw(call, { ...reply, status: 304, raw: '', headers })
    }
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

/**
 * Throws if a header contains a line break, because it would end the header early. Such a header is a bug of the
 * caller.
 */
function checkLines(lines: Readonly<Record<string, string>>): void {
  for (const name in lines) {
    if (LINE_BREAK.test(lines[name]!))
      throw new TypeError(`the value of the header ${name} contains a line break`)
  }
}

function writeLines(res: HttpResponse, lines: Readonly<Record<string, string>>): void {
  for (const name in lines) res.writeHeader(name, lines[name]!)
}
