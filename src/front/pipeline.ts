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
import { ipText, makeClientIp } from './client-ip.ts'
import { type CompiledRoute, headOf, JSON_TYPE } from './compiled-route.ts'
import type { Cors } from './cors.ts'
import { entityTag, namesTag } from './entity-tag.ts'
import { createSender, type Exchange, type LimitVerdict, type Sender } from './exchange.ts'
import { parseJson, writeJson } from './json.ts'
import { readParameter, readQuery, type Values } from './query.ts'
import type {
  Answer,
  AuthClass,
  CostClass,
  Principal,
  RawReply,
  Reply,
  Responses,
  RouteRequest,
  Takeover,
} from './route.ts'
import { newWriteStages, TIMING_HEADER } from './write-stages.ts'

/** The part of a pino logger that the front uses. */
export type Log = {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** What a limit or an authentication decides on. */
export type Arrival = {
  readonly requestId: string
  readonly route: string
  readonly auth: AuthClass
  readonly cost: CostClass
  readonly ip: string
  /** The `Authorization` header, '' if there is none; read on `write` and `token` routes only. */
  readonly authorization: string
  readonly deadlineAtMs: number
}

export type Hooks = {
  /**
   * Called for every request that is not free, before its body is read, and once more with the
   * principal after authentication. It answers at once: what it knows is in memory.
   */
  readonly limit?: (arrival: Arrival, principal: Principal | undefined) => LimitVerdict | undefined
  /** Called besides where a body asks for several things at once: so many more than one. */
  readonly limitMore?: (
    arrival: Arrival,
    principal: Principal | undefined,
    times: number,
  ) => LimitVerdict | undefined
  /**
   * Called for `write` and `token` routes; without it everybody may write. Undefined lets a request
   * through that nobody has to answer for.
   */
  readonly authenticate?: (
    arrival: Arrival,
  ) => Principal | undefined | Rejection | Promise<Principal | undefined | Rejection>
}

export type PipelineSettings = {
  readonly bodyBytesMax: number
  readonly deadlineMs: number
  readonly requestsInFlightMax: number
  /** Addresses whose `X-Forwarded-For` is believed. */
  readonly trustedProxies?: readonly string[]
}

export type Pipeline = {
  readonly serve: (compiled: CompiledRoute, isHead: boolean) => Handler
  readonly serveUpgrade: (compiled: CompiledRoute) => UpgradeHandler
  /** Answers what no route takes. */
  readonly refuse: (
    compiled: CompiledRoute,
    res: HttpResponse,
    req: HttpRequest,
    rejection: Rejection,
    headers?: Record<string, string>,
  ) => void
  readonly preflight: (
    compiled: CompiledRoute,
    res: HttpResponse,
    req: HttpRequest,
    methods: string,
  ) => void
  readonly inFlight: () => number
  /** From now on answers close their connection. Resolves when nothing is in flight any more. */
  readonly drain: () => Promise<void>
}

type Handler = (res: HttpResponse, req: HttpRequest) => void
type UpgradeHandler = (res: HttpResponse, req: HttpRequest, context: us_socket_context_t) => void

/** How often deadlines are looked at; they are met with this slack. */
const SWEEP_MS = 50
/** An announced body beyond this is not read to its end; the connection is closed instead. */
const DISCARDED_BYTES_MAX = 8 * 1024 * 1024

const NOTHING: Readonly<Record<string, never>> = Object.freeze({})
const NO_PATH: readonly string[] = []
const JSON_MEDIA = /^application\/json(?:\s*;\s*charset\s*=\s*"?utf-?8"?)?\s*;?\s*$/i
const LENGTH = /^[0-9]{1,15}$/

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

export function createPipeline(options: {
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
  const { limit, limitMore, authenticate } = hooks
  const clientIp = makeClientIp(settings.trustedProxies ?? [])
  const held = new Set<Exchange>()
  let draining = false
  let sweeping = false
  let wallMs = 0
  let wallReadAtMs = Number.NEGATIVE_INFINITY
  let drained: (() => void) | undefined

  const sender: Sender = createSender({ cors, hold, release, draining: () => draining, meter })
  const { sendRejection } = sender

  function release(exchange: Exchange): void {
    held.delete(exchange)
    if (held.size === 0 && drained !== undefined) drained()
  }

  /** Attaches what a request needs that is not answered in this very call. */
  function hold(exchange: Exchange): void {
    if (exchange.held) return
    exchange.held = true
    held.add(exchange)
    exchange.res.onAborted(() => gone(exchange))
    if (!sweeping) {
      sweeping = true
      clock.after(SWEEP_MS, sweep)
    }
  }

  function gone(exchange: Exchange): void {
    if (exchange.phase === 'over') {
      exchange.onGone?.()
      return
    }
    exchange.phase = 'over'
    exchange.compiled.meter.aborted += 1
    release(exchange)
  }

  function sweep(): void {
    const nowMs = clock.nowMs()
    for (const exchange of held) {
      if (exchange.request.deadlineAtMs <= nowMs) overdue(exchange)
    }
    sweeping = held.size > 0
    if (sweeping) clock.after(SWEEP_MS, sweep)
  }

  function overdue(exchange: Exchange): void {
    if (exchange.phase === 'reading') {
      exchange.closeAfter = true
      answerLater(exchange, reject('REQUEST_TIMEOUT'))
    } else if (exchange.phase === 'handling') {
      const { route } = exchange.compiled
      log.warn(
        { requestId: exchange.request.requestId, route: route.path },
        'a request passed its deadline',
      )
      answerLater(exchange, reject(route.method === 'GET' ? 'OVERLOADED' : 'OUTCOME_UNKNOWN'))
    }
  }

  function answerLater(exchange: Exchange, rejection: Rejection): void {
    exchange.res.cork(() => sendRejection(exchange, rejection))
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
  ): Exchange {
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
    return {
      res,
      compiled,
      isHead,
      startedAtMs,
      origin,
      authorization:
        authenticate !== undefined && takesToken(route.auth) ? req.getHeader('authorization') : '',
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
        ip: needsIp ? clientIp(ipText(res.getRemoteAddressAsText()), () => forwardedFor(req)) : '',
        principal: undefined,
        // Looked for where it can be answered only: a header costs a call into native code.
        stages:
          route.staged === true ? newWriteStages(req.getHeader(TIMING_HEADER) !== '') : undefined,
      },
      bytes: undefined,
      parseFromMs: 0,
      phase: 'open',
      held: false,
      closeAfter: false,
      verdict: undefined,
      onGone: undefined,
    }
  }

  function serve(compiled: CompiledRoute, isHead: boolean): Handler {
    return (res, req) => {
      const exchange = begin(compiled, isHead, res, req)
      try {
        if (!admitted(exchange)) return
        if (compiled.body === undefined) proceed(exchange)
        else if (bodyIsWelcome(exchange, req)) readBody(exchange)
      } catch (error) {
        failed(exchange, error)
      }
    }
  }

  /** Refuses what is one too many before anything is spent on it. */
  function admitted(exchange: Exchange): boolean {
    if (held.size >= settings.requestsInFlightMax && exchange.compiled.route.cost !== 'free') {
      sendRejection(exchange, reject('OVERLOADED'))
      return false
    }
    return limit === undefined || withinLimit(exchange)
  }

  function withinLimit(exchange: Exchange, cost = exchange.compiled.route.cost): boolean {
    if (limit === undefined || cost === 'free') return true
    return passes(exchange, limit(arrivalOf(exchange, cost), exchange.request.principal))
  }

  /** Pays for the rest of a body that asks for several things at once. */
  function restWithinLimit(exchange: Exchange): boolean {
    const { route } = exchange.compiled
    if (limitMore === undefined || !('times' in route) || route.times === undefined) return true
    const { body, principal } = exchange.request
    const more = route.times(body as never) - 1
    return more <= 0 || passes(exchange, limitMore(arrivalOf(exchange), principal, more))
  }

  function passes(exchange: Exchange, verdict: LimitVerdict | undefined): boolean {
    exchange.verdict = verdict
    if (verdict === undefined || verdict.allowed) return true
    sendRejection(exchange, reject('RATE_LIMITED'))
    return false
  }

  function arrivalOf(exchange: Exchange, cost = exchange.compiled.route.cost): Arrival {
    const { requestId, ip, deadlineAtMs } = exchange.request
    const { authorization } = exchange
    const { auth, path } = exchange.compiled.route
    return { requestId, route: path, auth, cost, ip, authorization, deadlineAtMs }
  }

  function bodyIsWelcome(exchange: Exchange, req: HttpRequest): boolean {
    const length = req.getHeader('content-length')
    const chunked = req.getHeader('transfer-encoding') !== ''
    const announced = LENGTH.test(length) ? Number(length) : 0
    if (announced > settings.bodyBytesMax) {
      // The rest of a body of reasonable length is read and thrown away, because closing on a
      // client that still writes would cost it the answer.
      exchange.closeAfter = announced > DISCARDED_BYTES_MAX
      sendRejection(exchange, reject('BODY_TOO_LARGE'))
      return false
    }
    if (announced > 0 || chunked) {
      if (!JSON_MEDIA.test(req.getHeader('content-type'))) {
        sendRejection(exchange, reject('UNSUPPORTED_MEDIA_TYPE'))
        return false
      }
    }
    return true
  }

  function readBody(exchange: Exchange): void {
    let kept: Buffer[] | undefined
    let bytes = 0
    hold(exchange)
    exchange.phase = 'reading'
    exchange.res.onData((chunk, isLast) => {
      if (exchange.phase !== 'reading') return
      bytes += chunk.byteLength
      if (bytes > settings.bodyBytesMax) {
        kept = undefined
        if (!isLast && bytes <= DISCARDED_BYTES_MAX) return
        exchange.closeAfter = !isLast
        sendRejection(exchange, reject('BODY_TOO_LARGE'))
        return
      }
      if (!isLast) {
        // The chunk's memory is the library's; it is only ours until this function returns.
        kept ??= []
        kept.push(Buffer.from(Buffer.from(chunk)))
        return
      }
      try {
        const whole = kept === undefined ? chunk : Buffer.concat([...kept, Buffer.from(chunk)])
        if (asksWho(exchange)) {
          // Nothing of a stranger's body is looked at; and the chunk is gone after an await.
          exchange.bytes = kept === undefined ? Buffer.from(Buffer.from(chunk)) : (whole as Buffer)
          proceed(exchange)
        } else if (takeBody(exchange, whole)) proceed(exchange)
      } catch (error) {
        failed(exchange, error)
      }
    })
  }

  function takeBody(exchange: Exchange, bytes: ArrayBuffer | Buffer): boolean {
    if (exchange.request.stages !== undefined) exchange.parseFromMs = performance.now()
    if (bytes.byteLength === 0) {
      if (exchange.compiled.bodyOptional) return true
      sendRejection(exchange, reject('INVALID_JSON', undefined, 'a JSON body is required'))
      return false
    }
    const { value, rejection } = parseJson(bytes)
    if (rejection !== undefined) {
      sendRejection(exchange, rejection)
      return false
    }
    exchange.request.body = value
    return true
  }

  function asksWho(exchange: Exchange): boolean {
    return authenticate !== undefined && takesToken(exchange.compiled.route.auth)
  }

  function proceed(exchange: Exchange): void {
    exchange.phase = 'handling'
    if (authenticate === undefined || !asksWho(exchange)) {
      handle(exchange)
      return
    }
    const answer = authenticate(arrivalOf(exchange))
    if (answer instanceof Promise) {
      const begunMs = performance.now()
      later(exchange, answer, (late) => {
        const tookMs = performance.now() - begunMs
        meter?.record('authenticate', tookMs)
        if (exchange.request.stages !== undefined) exchange.request.stages.authenticate = tookMs
        identified(exchange, late)
      })
    } else identified(exchange, answer)
  }

  function identified(exchange: Exchange, answer: Principal | undefined | Rejection): void {
    if (isRejection(answer)) {
      sendRejection(exchange, answer)
      return
    }
    exchange.request.principal = answer
    if (answer !== undefined && !withinLimit(exchange)) return
    const { bytes } = exchange
    exchange.bytes = undefined
    if (bytes === undefined || takeBody(exchange, bytes)) handle(exchange)
  }

  /** Goes on when the promise settles, unless the client has been answered or is gone by then. */
  function later<T>(exchange: Exchange, promise: Promise<T>, next: (value: T) => void): void {
    hold(exchange)
    promise.then(
      (value) => {
        if (exchange.phase !== 'handling') return
        exchange.res.cork(() => {
          try {
            next(value)
          } catch (error) {
            failed(exchange, error)
          }
        })
      },
      (error: unknown) => failed(exchange, error),
    )
  }

  function handle(exchange: Exchange): void {
    const rejection = flawOf(exchange)
    const { stages } = exchange.request
    if (stages !== undefined && exchange.parseFromMs > 0) {
      stages.parse = performance.now() - exchange.parseFromMs
      meter?.record('parse', stages.parse)
    }
    if (rejection !== undefined) {
      sendRejection(exchange, rejection)
      return
    }
    if (!restWithinLimit(exchange)) return
    const { route } = exchange.compiled
    if (route.kind === 'sse') {
      const request = exchange.request as RouteRequest<unknown, unknown, undefined>
      const refused = route.refuse?.(request)
      if (refused === undefined) takeOver(exchange, route.open)
      else sendRejection(exchange, refused)
      return
    }
    assert.ok(route.kind !== 'upgrade', 'an upgrade has its own way')
    const answer = route.handle(exchange.request)
    if (answer instanceof Promise) later(exchange, answer, (late) => send(exchange, late))
    else send(exchange, answer)
  }

  /** Turns what came as text and JSON into the values that the schemas promise. */
  function flawOf(exchange: Exchange): Rejection | undefined {
    const { compiled, request, rawPath, rawQuery } = exchange
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

  function send(exchange: Exchange, answer: Answer<Responses>): void {
    if (isRejection(answer)) sendRejection(exchange, answer)
    else if (exchange.compiled.route.revalidates === true && answer.status === 200) {
      sendTagged(exchange, answer)
    } else if ('raw' in answer) {
      const { status, raw, contentType, headers } = answer
      sender.sendRaw(exchange, status, raw, contentType ?? JSON_TYPE, headers)
    } else sender.sendJson(exchange, answer.status, answer.body, answer.headers)
  }

  function sendTagged(exchange: Exchange, answer: Reply<Responses> | RawReply): void {
    const raw = 'raw' in answer ? answer.raw : writeJson(answer.body)
    const contentType = 'raw' in answer ? (answer.contentType ?? JSON_TYPE) : JSON_TYPE
    // A route that knows its answer's version spares the hashing.
    const etag = answer.headers?.etag ?? entityTag(raw)
    const headers = { ...answer.headers, etag }
    if (namesTag(exchange.ifNoneMatch, etag)) {
      sender.sendRaw(exchange, 304, '', contentType, headers)
    } else sender.sendRaw(exchange, 200, raw, contentType, headers)
  }

  function takeOver(
    exchange: Exchange,
    open: (request: RouteRequest<unknown, unknown, undefined>, takeover: Takeover) => void,
  ): void {
    hold(exchange)
    release(exchange)
    exchange.phase = 'over'
    try {
      open(exchange.request as RouteRequest<unknown, unknown, undefined>, {
        res: exchange.res,
        writeHead: (contentType: string) =>
          sender.writeHead(exchange, 200, headOf(exchange.compiled, contentType)),
        onAborted: (listener: () => void) => {
          exchange.onGone = listener
        },
      })
    } catch (error) {
      // Nobody knows what has been written by now, so the connection is all that can be ended.
      failed(exchange, error)
      exchange.res.close()
    }
  }

  function failed(exchange: Exchange, error: unknown): void {
    log.error(
      { requestId: exchange.request.requestId, route: exchange.compiled.route.path, err: error },
      'a request failed',
    )
    if (exchange.phase === 'over' || exchange.phase === 'sending') return
    // What is away outside may be back soon; everything else is a bug.
    const away = error instanceof Fault && error.retryable
    answerLater(exchange, reject(away ? 'OVERLOADED' : 'INTERNAL'))
  }

  function serveUpgrade(compiled: CompiledRoute): UpgradeHandler {
    return (res, req, context) => {
      const { route } = compiled
      assert.ok(route.kind === 'upgrade')
      const exchange = begin(compiled, false, res, req)
      const key = req.getHeader('sec-websocket-key')
      const protocol = req.getHeader('sec-websocket-protocol')
      const extensions = req.getHeader('sec-websocket-extensions')
      const finish = (answer: object | Rejection): void => {
        if (isRejection(answer)) {
          sendRejection(exchange, answer)
          return
        }
        exchange.phase = 'over'
        if (exchange.held) release(exchange)
        res.upgrade(answer, key, protocol, extensions, context)
      }
      try {
        if (!admitted(exchange)) return
        exchange.phase = 'handling'
        const rejection = flawOf(exchange)
        if (rejection !== undefined) {
          sendRejection(exchange, rejection)
          return
        }
        const answer = route.accept(exchange.request as RouteRequest<unknown, unknown, undefined>)
        if (answer instanceof Promise) later(exchange, answer, finish)
        else finish(answer)
      } catch (error) {
        failed(exchange, error)
      }
    }
  }

  return {
    serve,
    serveUpgrade,
    refuse(compiled, res, req, rejection, headers) {
      const exchange = begin(compiled, req.getMethod() === 'head', res, req)
      if (withinLimit(exchange, 'read')) sendRejection(exchange, rejection, headers)
    },
    preflight(compiled, res, req, methods) {
      const exchange = begin(compiled, false, res, req)
      if (!withinLimit(exchange, 'read')) return
      const headers = Object.fromEntries(cors.preflight(methods))
      sender.sendRaw(exchange, 204, '', JSON_TYPE, { allow: methods, ...headers })
    },
    inFlight: () => held.size,
    drain() {
      draining = true
      if (held.size === 0) return Promise.resolve()
      return new Promise((resolve) => {
        drained = resolve
      })
    },
  }
}
