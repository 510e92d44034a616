/**
 * Starts a call: reads only the parts of a request that its route needs, because each read is a call into native code.
 */

import type { HttpRequest, HttpResponse } from 'uWebSockets.js'
import { performance } from 'node:perf_hooks'
import type { Clock } from '#runtime/clock.ts'
import type { Tracer } from '#runtime/trace.ts'
import type { Call } from './call.ts'
import { takesToken } from './call-handler.ts'
import { ipText, makeClientIp } from './client-ip.ts'
import type { CompiledRoute } from './compiled-route.ts'
import type { Cors } from './cors.ts'
import type { Hooks, PipelineSettings } from './hooks.ts'
import { newWriteStages, TIMING_HEADER, type WriteStages } from './write-stages.ts'

const NOTHING: Readonly<Record<string, never>> = Object.freeze({})
const NO_PATH: readonly string[] = []
/** Joins all lines of the header `x-forwarded-for`. The library's own look-up returns only the first line. */
function forwardedFor(req: HttpRequest): string {
  const lines: string[] = []
  req.forEach((name, value) => {
    if (name === 'x-forwarded-for') lines.push(value)
  })
  return lines.join(',')
}

export function makeCallReader(options: {
  readonly settings: PipelineSettings
  readonly cors: Cors
  readonly hooks: Hooks
  readonly clock: Clock
  readonly requestIdOf: (fromClient: string) => string
  readonly tracer: Tracer | undefined
}) {
  const { settings, cors, hooks, clock, requestIdOf, tracer } = options
  const { limit, authenticate, asks = () => true } = hooks
  const clientIp = makeClientIp(settings.trustedProxies ?? [])
  let wallMs = 0
  let wallReadAtMs = Number.NEGATIVE_INFINITY

  /** Returns the wall clock in milliseconds, read at most once per millisecond. */
  function wallClock(steadyMs: number): number {
    if (steadyMs - wallReadAtMs >= 1) {
      wallMs = clock.nowMs()
      wallReadAtMs = steadyMs
    }
    return wallMs
  }

  /**
   * Returns a record for the stages of a measured or traced request; undefined for any other request. If the
   * route is neither measured nor traced, reads no header, to save time.
   */
  function stagesOf(
    { staged, traced, method, path }: CompiledRoute['route'],
    req: HttpRequest,
  ): WriteStages | undefined {
    if (staged !== true && (traced !== true || tracer === undefined)) return undefined
    const span = tracer?.begin(`${method} ${path}`, req.getHeader('traceparent'))
    if (staged !== true && span === undefined) return undefined
    return newWriteStages(staged === true && req.getHeader(TIMING_HEADER) !== '', span)
  }

  return function begin(
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
      // The library may return undefined, although its types declare a string.
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
        stages: stagesOf(route, req),
      },
      bytes: undefined,
      parseFromMs: 0,
      timesPaid: 1,
      unreadBytes: 0,
      phase: 'open',
      held: false,
      closeAfter: false,
      endsConnection: false,
      verdict: undefined,
      onGone: undefined,
    }
  }
}
