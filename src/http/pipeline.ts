/**
 * Stages of every request: count, limit, read the body, authenticate, validate, handle, answer. A public GET whose
 * handler answers at once is finished within the library's callback. Every other request is held: it gets an abort
 * handler and a deadline, and counts towards the limit of requests in flight.
 */

import type { HttpRequest, HttpResponse, us_socket_context_t } from 'uWebSockets.js'
import { strict as assert } from 'node:assert'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { Clock } from '#runtime/clock.ts'
import type { StageMeter } from '#runtime/stage-meter.ts'
import type { Tracer } from '#runtime/trace.ts'
import { type Call, makeSender, type Sender } from './call.ts'
import { type CallFailures, makeCallFailures } from './call-failures.ts'
import { flawOf } from './call-flaw.ts'
import { makeCallHandler } from './call-handler.ts'
import { makeCallReader } from './call-reader.ts'
import { makeCallTurns } from './call-turns.ts'
import { makeCharges } from './charges.ts'
import type { CompiledRoute } from './compiled-route.ts'
import type { Cors } from './cors.ts'
import type { FairTurns } from './fair-turns.ts'
import { makeHeldCalls } from './held-calls.ts'
import type { Hooks, Log, PipelineSettings } from './hooks.ts'
import { makeLateRefusals } from './late-refusals.ts'
import { makeBodyReader } from './read-body.ts'
import { makeRequestLog } from './request-log.ts'
import type { RouteRequest } from './route.ts'

export type Pipeline = {
  readonly serve: (compiled: CompiledRoute, isHead: boolean) => Handler
  readonly serveUpgrade: (compiled: CompiledRoute) => UpgradeHandler
  /** Answers requests that match no route. */
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
  /** Number of delayed refusals that are waiting. */
  readonly refusedLate: () => number
  /** Closes each connection after its next answer. Resolves when no request is in flight. */
  readonly drain: () => Promise<void>
}

type Handler = (res: HttpResponse, req: HttpRequest) => void
type UpgradeHandler = (res: HttpResponse, req: HttpRequest, context: us_socket_context_t) => void

type UpgradeParts = Pick<CallFailures, 'later' | 'failed'> &
  Pick<Sender, 'sendRejection'> & {
    readonly begin: ReturnType<typeof makeCallReader>
    readonly isAdmitted: (call: Call, req: HttpRequest) => boolean
    readonly release: (call: Call) => void
  }

/** Makes the handler that upgrades a connection to a WebSocket. */
function upgradeHandler(compiled: CompiledRoute, parts: UpgradeParts): UpgradeHandler {
  const { begin, isAdmitted, sendRejection, release, later, failed } = parts
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
      if (!isAdmitted(call, req)) return
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

const TOO_MANY = reject(
  'RATE_LIMITED',
  undefined,
  'too many requests of this IP address are in progress: wait for an answer',
)

export function makePipeline(options: {
  readonly settings: PipelineSettings
  readonly cors: Cors
  readonly hooks: Hooks
  readonly log: Log
  readonly clock: Clock
  readonly requestIdOf: (fromClient: string) => string
  /** Called with the duration of each stage of a write. */
  readonly meter?: StageMeter | undefined
  /** Traces some of the writes. */
  readonly tracer?: Tracer | undefined
  readonly turns?: FairTurns | undefined
}): Pipeline {
  const { settings, cors, hooks, log, clock, requestIdOf, meter, tracer, turns } = options
  const begin = makeCallReader({ settings, cors, hooks, clock, requestIdOf, tracer })
  const logRequest = makeRequestLog(log, settings.logEvery ?? 0)
  const { connectionsPerIpMax: perIpMax = Number.POSITIVE_INFINITY, siteTimes } = settings
  const calls = makeHeldCalls({
    clock,
    overdue: (call) => failures.overdue(call),
    ...{ perIpMax, siteTimes },
  })
  const { hold, release } = calls
  const sender: Sender = makeSender({
    ...{ cors, hold, release, draining: calls.isDraining, meter },
    ...{ sending: calls.sending, isUnread: calls.isUnread },
    pays: (call, bytes) => charges.answer(call, bytes),
    answered(call, status, ms) {
      logRequest(call, status, ms)
      const { stages, requestId } = call.request
      stages?.span?.end(
        { 'http.response.status_code': status, 'sibyl.request.id': requestId },
        status >= 500,
      )
    },
  })
  const { sendRejection } = sender
  const late = makeLateRefusals({
    clock,
    refuse: (call) => sendRejection(call, reject('RATE_LIMITED')),
  })
  const charges = makeCharges(hooks, sendRejection, late.add)
  const bodies = makeBodyReader({ hold, sendRejection })
  const failures = makeCallFailures({ log, clock, hold, sendRejection, turns })
  const { failed, later } = failures
  const handler = makeCallHandler({
    ...{ hooks, charges, sender, meter, hold, release, failed, later },
  })
  const inTurn = makeCallTurns({ turns, handler, hold, sendRejection, failed })

  function serve(compiled: CompiledRoute, isHead: boolean): Handler {
    return (res, req) => {
      const call = begin(compiled, isHead, res, req)
      try {
        if (!isAdmitted(call, req)) return
        if (compiled.body === undefined) inTurn(call, undefined)
        else if (bodies.isWelcome(call, req)) bodies.read(call, inTurn)
      } catch (error) {
        failed(call, error)
      }
    }
  }

  /**
   * Returns whether the request may continue. Refuses it if its client is over the rate limit. Also refuses it if too
   * many requests are in flight, of this client or of all clients together.
   */
  function admitted(call: Call): boolean {
    // The request is charged first, so that refusals are not free for a client that keeps sending.
    if (!charges.arrival(call)) return false
    if (call.compiled.route.cost === 'health') return true
    // A trusted proxy has no connection limit, because it carries many clients. So requests in flight are limited here
    // too, for the IP range of each client.
    const isGreedy = calls.isFullFor(call.request.ip)
    if (!isGreedy && calls.size() < settings.requestsInFlightMax) return true
    sendRejection(call, isGreedy ? TOO_MANY : reject('OVERLOADED'))
    return false
  }

  const isAdmitted = (call: Call, req: HttpRequest): boolean =>
    bodies.isFramed(call, req) && admitted(call)
  const upgrading = { begin, isAdmitted, sendRejection, release, later, failed }

  return {
    serve,
    serveUpgrade: (compiled) => upgradeHandler(compiled, upgrading),
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
