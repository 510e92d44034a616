/**
 * The way of a request, the same for every route: count it, limit it, read its body, authenticate,
 * validate, handle, answer. A public GET whose handler answers at once stays in one call and attaches
 * nothing; everything else is held: it has an abort handler, a deadline and a place among the
 * requests in flight, whose number is bounded.
 */

import type { HttpRequest, HttpResponse, us_socket_context_t } from 'uWebSockets.js'
import { strict as assert } from 'node:assert'
import { performance } from 'node:perf_hooks'
import { Fault } from '#domain/fault.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { Clock } from '#runtime/clock.ts'
import type { StageMeter } from '#runtime/stage-meter.ts'
import { type Call, makeSender, type Sender } from './call.ts'
import { type Arrival, arrivalOf, type LimitHooks, makeCharges } from './charges.ts'
import { ipText, makeClientIp } from './client-ip.ts'
import { type CompiledRoute, headOf } from './compiled-route.ts'
import type { Cors } from './cors.ts'
import { makeHeldCalls } from './held-calls.ts'
import { parseJson } from './json.ts'
import { makeLateRefusals } from './late-refusals.ts'
import { readParameter, readQuery, type Values } from './query.ts'
import { makeBodyReader } from './read-body.ts'
import { makeRepeatedErrors } from './repeated-errors.ts'
import { makeRequestLog } from './request-log.ts'
import type { AuthClass, Principal, RouteRequest, Takeover } from './route.ts'
import { newWriteStages, TIMING_HEADER } from './write-stages.ts'

/** The part of a pino logger that the front uses. */
export type Log = {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

export type Hooks = LimitHooks & {
  /**
   * Called for `write` and `token` routes; without it every client may write. Undefined lets a
   * request through that belongs to no key.
   */
  readonly authenticate?: (
    arrival: Arrival,
  ) => Principal | undefined | Rejection | Promise<Principal | undefined | Rejection>
  /** Which of the two it is called for; both if undefined. */
  readonly asks?: (auth: AuthClass) => boolean
}

type PipelineSettings = {
  readonly deadlineMs: number
  readonly requestsInFlightMax: number
  /** Addresses whose `X-Forwarded-For` is believed. */
  readonly trustedProxies?: readonly string[]
  /** Every nth request is logged; 0 logs none. */
  readonly logEvery?: number
}

type Pipeline = {
  readonly serve: (compiled: CompiledRoute, isHead: boolean) => Handler
  readonly serveUpgrade: (compiled: CompiledRoute) => UpgradeHandler
  /** Answers what no route takes. */
  readonly refuse: (
    compiled: CompiledRoute,
    res: HttpResponse,
    req: HttpRequest,
    refusal: { readonly rejection: Rejection; readonly headers?: Record<string, string> },
  ) => void
  readonly preflight: (
    compiled: CompiledRoute,
    res: HttpResponse,
    req: HttpRequest,
    methods: string,
  ) => void
  readonly inFlight: () => number
  /** Refused requests whose answer waits. */
  readonly refusedLate: () => number
  /** From now on answers close their connection. Resolves when nothing is in flight any more. */
  readonly drain: () => Promise<void>
}

type Handler = (res: HttpResponse, req: HttpRequest) => void
type UpgradeHandler = (res: HttpResponse, req: HttpRequest, context: us_socket_context_t) => void

const NOTHING: Readonly<Record<string, never>> = Object.freeze({})
const NO_PATH: readonly string[] = []
/** All lines of the header as one list: the library's own look-up knows the first line only. */
function forwardedFor(req: HttpRequest): string {
  const lines: string[] = []
  req.forEach((name, value) => {
    if (name === 'x-forwarded-for') lines.push(value)
  })
  return lines.join(',')
}

function takesToken(auth: AuthClass): boolean {
  return auth === 'write' || auth === 'token'
}

export function makePipeline(options: {
  readonly settings: PipelineSettings
  readonly cors: Cors
  readonly hooks: Hooks
  readonly log: Log
  readonly clock: Clock
  readonly requestIdOf: (fromClient: string) => string
  /** Told how long each stage of a write took. */
  readonly meter?: StageMeter | undefined
}): Pipeline {
  const { settings, cors, hooks, log, clock, requestIdOf, meter } = options
  const { limit, authenticate, asks = () => true } = hooks
  const clientIp = makeClientIp(settings.trustedProxies ?? [])
  let wallMs = 0
  let wallReadAtMs = Number.NEGATIVE_INFINITY

  const calls = makeHeldCalls({ clock, overdue })
  const { hold, release } = calls
  const errors = makeRepeatedErrors(log, clock)
  const sender: Sender = makeSender({
    ...{ cors, hold, release, draining: calls.isDraining, meter },
    pays: (call, bytes) => charges.answer(call, bytes),
    answered: makeRequestLog(log, settings.logEvery ?? 0),
  })
  const { sendRejection } = sender
  const late = makeLateRefusals({
    clock,
    refuse: (call) => sendRejection(call, reject('RATE_LIMITED')),
  })
  const charges = makeCharges(hooks, sendRejection, late.add)
  const bodies = makeBodyReader({ hold, sendRejection })

  function overdue(call: Call): void {
    if (call.phase === 'reading') {
      call.closeAfter = true
      answerLater(call, reject('REQUEST_TIMEOUT'))
    } else if (call.phase === 'handling') {
      const { route } = call.compiled
      log.warn(
        { requestId: call.request.requestId, route: route.path },
        'a request passed its deadline',
      )
      answerLater(call, reject(route.method === 'GET' ? 'OVERLOADED' : 'OUTCOME_UNKNOWN'))
    }
  }

  function answerLater(call: Call, rejection: Rejection): void {
    call.res.cork(() => sendRejection(call, rejection))
  }

  /** The wall clock to the millisecond, read once in each. */
  function wallClock(steadyMs: number): number {
    if (steadyMs - wallReadAtMs >= 1) {
      wallMs = clock.nowMs()
      wallReadAtMs = steadyMs
    }
    return wallMs
  }

  function begin(
    compiled: CompiledRoute,
    isHead: boolean,
    res: HttpResponse,
    req: HttpRequest,
  ): Call {
    const startedAtMs = performance.now()
    const { route, headerNames, params } = compiled
    let headers: Record<string, string> = NOTHING
    if (headerNames.length > 0) {
      headers = {}
      for (const name of headerNames) headers[name] = req.getHeader(name)
    }
    let rawPath: readonly string[] = NO_PATH
    if (params.length > 0) {
      const path: string[] = []
      for (let at = 0; at < params.length; at++) path.push(req.getParameter(at) ?? '')
      rawPath = path
    }
    let origin = ''
    if (cors.byOrigin) {
      origin = req.getHeader('origin')
      if (origin !== '' && !cors.allows(origin)) origin = ''
    }
    const needsIp = limit !== undefined || route.readsIp === true
    const peer = needsIp ? ipText(res.getRemoteAddressAsText()) : ''
    const ip = needsIp ? clientIp(peer, () => forwardedFor(req)) : ''
    return {
      res,
      compiled,
      isHead,
      isDirect: ip === peer,
      startedAtMs,
      origin,
      authorization:
        authenticate !== undefined && takesToken(route.auth) && asks(route.auth)
          ? req.getHeader('authorization')
          : '',
      ifNoneMatch: route.revalidates === true ? req.getHeader('if-none-match') : '',
      rawPath,
      // The library answers undefined where its types say string.
      rawQuery: req.getQuery() ?? '',
      request: {
        path: NOTHING,
        query: NOTHING,
        body: undefined,
        requestId: requestIdOf(req.getHeader('x-request-id')),
        deadlineAtMs: wallClock(startedAtMs) + (route.deadlineMs ?? settings.deadlineMs),
        headers,
        ip,
        principal: undefined,
        // Looked for where it can be answered only: a header costs a call into native code.
        stages:
          route.staged === true ? newWriteStages(req.getHeader(TIMING_HEADER) !== '') : undefined,
      },
      bytes: undefined,
      parseFromMs: 0,
      timesPaid: 1,
      phase: 'open',
      held: false,
      closeAfter: false,
      verdict: undefined,
      onGone: undefined,
    }
  }

  function serve(compiled: CompiledRoute, isHead: boolean): Handler {
    return (res, req) => {
      const call = begin(compiled, isHead, res, req)
      try {
        if (!bodies.isFramed(call, req) || !admitted(call)) return
        if (compiled.body === undefined) proceed(call)
        else if (bodies.isWelcome(call, req)) bodies.read(call, arrived)
      } catch (error) {
        failed(call, error)
      }
    }
  }

  /** Refuses what is one too many before anything is spent on it. */
  function admitted(call: Call): boolean {
    if (calls.size() >= settings.requestsInFlightMax && call.compiled.route.cost !== 'free') {
      sendRejection(call, reject('OVERLOADED'))
      return false
    }
    return charges.arrival(call)
  }

  /** The whole body is here; its last chunk's memory is the library's until this returns. */
  function arrived(call: Call, body: ArrayBuffer | Buffer): void {
    try {
      if (asksWho(call)) {
        // Nothing of a stranger's body is looked at; and the chunk is gone after an await.
        call.bytes = Buffer.isBuffer(body) ? body : Buffer.from(Buffer.from(body))
        proceed(call)
      } else if (takeBody(call, body)) proceed(call)
    } catch (error) {
      failed(call, error)
    }
  }

  function takeBody(call: Call, bytes: ArrayBuffer | Buffer): boolean {
    if (call.request.stages !== undefined) call.parseFromMs = performance.now()
    if (bytes.byteLength === 0) {
      if (call.compiled.bodyOptional) return true
      sendRejection(call, reject('INVALID_JSON', undefined, 'a JSON body is required'))
      return false
    }
    if (!charges.body(call, bytes.byteLength)) return false
    const { value, rejection } = parseJson(bytes)
    if (rejection !== undefined) {
      sendRejection(call, rejection)
      return false
    }
    call.request.body = value
    return true
  }

  function asksWho(call: Call): boolean {
    const { auth } = call.compiled.route
    return authenticate !== undefined && takesToken(auth) && asks(auth)
  }

  function proceed(call: Call): void {
    call.phase = 'handling'
    if (authenticate === undefined || !asksWho(call)) {
      handle(call)
      return
    }
    const answer = authenticate(arrivalOf(call))
    if (answer instanceof Promise) {
      const begunMs = performance.now()
      later(call, answer, (late) => {
        const tookMs = performance.now() - begunMs
        meter?.record('authenticate', tookMs)
        if (call.request.stages !== undefined) call.request.stages.authenticate = tookMs
        identified(call, late)
      })
    } else identified(call, answer)
  }

  function identified(call: Call, answer: Principal | undefined | Rejection): void {
    if (isRejection(answer)) {
      sendRejection(call, answer)
      return
    }
    call.request.principal = answer
    if (answer !== undefined && !charges.arrival(call)) return
    const { bytes } = call
    call.bytes = undefined
    if (bytes === undefined || takeBody(call, bytes)) handle(call)
  }

  /** Goes on when the promise settles, unless the client has been answered or is gone by then. */
  function later<T>(call: Call, promise: Promise<T>, next: (value: T) => void): void {
    hold(call)
    promise.then(
      (value) => {
        if (call.phase !== 'handling') return
        call.res.cork(() => {
          try {
            next(value)
          } catch (error) {
            failed(call, error)
          }
        })
      },
      (error: unknown) => failed(call, error),
    )
  }

  function handle(call: Call): void {
    const rejection = flawOf(call)
    const { stages } = call.request
    if (stages !== undefined && call.parseFromMs > 0) {
      stages.parse = performance.now() - call.parseFromMs
      meter?.record('parse', stages.parse)
    }
    if (rejection !== undefined) {
      sendRejection(call, rejection)
      return
    }
    if (!charges.rest(call)) return
    const { route } = call.compiled
    if (route.kind === 'sse') {
      const request = call.request as RouteRequest<unknown, unknown, undefined>
      const refused = route.refuse?.(request)
      if (refused === undefined) takeOver(call, route.open)
      else sendRejection(call, refused)
      return
    }
    assert.ok(route.kind !== 'upgrade', 'an upgrade has its own way')
    const answer = route.handle(call.request)
    if (answer instanceof Promise) later(call, answer, (late) => sender.send(call, late))
    else sender.send(call, answer)
  }

  /** Turns what came as text and JSON into the values that the schemas promise. */
  function flawOf(call: Call): Rejection | undefined {
    const { compiled, request, rawPath, rawQuery } = call
    const { params, query, body } = compiled
    if (params.length > 0) {
      const values: Values = {}
      for (let at = 0; at < params.length; at++) {
        const rejection = readParameter(params[at]!, rawPath[at]!, values)
        if (rejection !== undefined) return rejection
      }
      request.path = values
    }
    if (rawQuery !== '' || compiled.queryRequired) {
      const values: Values = {}
      const rejection = readQuery(rawQuery, query, values)
      if (rejection !== undefined) return rejection
      request.query = values
    }
    if (body !== undefined && (request.body !== undefined || !compiled.bodyOptional)) {
      if (!body.fits(request.body)) return body.flaw(request.body)
      body.normalise?.(request.body)
    }
    return undefined
  }

  function takeOver(
    call: Call,
    open: (request: RouteRequest<unknown, unknown, undefined>, takeover: Takeover) => void,
  ): void {
    hold(call)
    release(call)
    call.phase = 'over'
    try {
      open(call.request as RouteRequest<unknown, unknown, undefined>, {
        res: call.res,
        writeHead: (contentType: string) =>
          sender.writeHead(call, 200, headOf(call.compiled, contentType)),
        onAborted: (listener: () => void) => {
          call.onGone = listener
        },
      })
    } catch (error) {
      // It is not known what has been written by now, so only the connection can be ended.
      failed(call, error)
      call.res.close()
    }
  }

  function failed(call: Call, error: unknown): void {
    const { requestId } = call.request
    errors.tell(error, { requestId, route: call.compiled.route.path }, 'a request failed')
    if (call.phase === 'over' || call.phase === 'sending') return
    // An outside failure may be temporary; everything else is a bug.
    const away = error instanceof Fault && error.retryable
    answerLater(call, reject(away ? 'OVERLOADED' : 'INTERNAL'))
  }

  function serveUpgrade(compiled: CompiledRoute): UpgradeHandler {
    return (res, req, context) => {
      const { route } = compiled
      assert.ok(route.kind === 'upgrade')
      const call = begin(compiled, false, res, req)
      const key = req.getHeader('sec-websocket-key')
      const protocol = req.getHeader('sec-websocket-protocol')
      const extensions = req.getHeader('sec-websocket-extensions')
      const finish = (answer: object | Rejection): void => {
        if (isRejection(answer)) {
          sendRejection(call, answer)
          return
        }
        call.phase = 'over'
        if (call.held) release(call)
        res.upgrade(answer, key, protocol, extensions, context)
      }
      try {
        if (!bodies.isFramed(call, req) || !admitted(call)) return
        call.phase = 'handling'
        const rejection = flawOf(call)
        if (rejection !== undefined) {
          sendRejection(call, rejection)
          return
        }
        const answer = route.accept(call.request as RouteRequest<unknown, unknown, undefined>)
        if (answer instanceof Promise) later(call, answer, finish)
        else finish(answer)
      } catch (error) {
        failed(call, error)
      }
    }
  }

  return {
    serve,
    serveUpgrade,
    refuse(compiled, res, req, { rejection, headers }) {
      const call = begin(compiled, req.getMethod() === 'head', res, req)
      if (!bodies.isFramed(call, req)) return
      if (charges.arrival(call, 'read')) sendRejection(call, rejection, headers)
    },
    preflight(compiled, res, req, methods) {
      const call = begin(compiled, false, res, req)
      if (!bodies.isFramed(call, req) || !charges.arrival(call, 'read')) return
      const headers = Object.fromEntries(cors.preflight(methods))
      sender.sendRaw(call, { status: 204, raw: '', headers: { allow: methods, ...headers } })
    },
    inFlight: calls.size,
    refusedLate: late.size,
    drain() {
      const drained = calls.drain()
      late.flush()
      return drained
    },
  }
}
