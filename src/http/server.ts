/**
 * HTTP front of one thread: a route table on a listening socket. The caller passes in routes, services and settings;
 * the front knows HTTP and nothing about markets.
 */

import * as uws from 'uWebSockets.js'
import {
  App,
  type HttpRequest,
  type HttpResponse,
  type RecognizedString,
  type TemplatedApp,
  type us_listen_socket,
  us_listen_socket_close,
  us_socket_local_port,
} from 'uWebSockets.js'
import { Registry } from 'prom-client'
import { reject } from '#domain/rejection.ts'
import { type Clock, systemClock } from '#runtime/clock.ts'
import { beat } from '#runtime/heartbeat.ts'
import type { StageMeter } from '#runtime/stage-meter.ts'
import type { Tracer } from '#runtime/trace.ts'
import type { LimitVerdict } from './call.ts'
import { ipText, makeTrust } from './client-ip.ts'
import { type CompiledRoute, compileRoute, matchesPath } from './compiled-route.ts'
import { type ConnectionSettings, makeConnectionGate, type Refusal } from './connection-gate.ts'
import { makeCors } from './cors.ts'
import { countPeers } from './count-peers.ts'
import { ERRORS, errorBody, relayerErrorBody, sentenceOf } from './errors.ts'
import type { FairTurns } from './fair-turns.ts'
import type { Hooks, Log } from './hooks.ts'
import { lazily } from './lazily.ts'
import { registerMeters } from './meters.ts'
import { type DocumentInfo, type LiveExamples, openapiDocument, withExamples } from './openapi.ts'
import { makePipeline, type Pipeline } from './pipeline.ts'
import { listenFault } from './port.ts'
import { postmanCollection } from './postman.ts'
import { makeRequestIds } from './request-id.ts'
import { type AnswerRoute, type Route, route } from './route.ts'
import { docs } from './routes/docs.ts'
import { healthz } from './routes/healthz.ts'
import { metrics } from './routes/metrics.ts'
import { openapi, postman } from './routes/openapi.ts'
import { type Readiness, readyz } from './routes/readyz.ts'
import { statusLine } from './status-line.ts'

export type FrontSettings = Partial<ConnectionSettings> & {
  readonly host: string
  /** Port number; 0 picks a free port. */
  readonly port: number
  /** Lets other threads listen on the same port. Call `claimPort` first. Must not be used with port 0. */
  readonly sharePort?: boolean
  /** Origins of browser pages that may read answers; `*` for all. */
  readonly corsOrigins: readonly string[]
  /** Maximum time from the arrival of a request to its answer, unless the route has its own deadline. */
  readonly deadlineMs: number
  /**
   * Maximum number of requests that wait for a body or an answer at the same time; further requests are refused with
   * OVERLOADED.
   */
  readonly requestsInFlightMax: number
  /** IP addresses of proxies whose `X-Forwarded-For` is trusted. */
  readonly trustedProxies?: readonly string[]
  /** Every nth request is logged; 0 logs none. */
  readonly logEvery?: number
}

type FrontServices = Hooks & {
  /** Charges an IP address for a new connection. */
  readonly limitConnection?: (ip: string) => LimitVerdict
  readonly readiness: () => Readiness | Promise<Readiness>
  /** Returns the text of `/metrics`; by default the metrics of this thread alone. */
  readonly metrics?: () => Promise<string>
}

export type FrontOptions = {
  readonly routes: readonly Route[]
  /**
   * Where the operators' routes `/readyz` and `/metrics` are served. `here`: on this port, with the other routes (the
   * default). `apart`: on another port. `alone`: on this port, which serves no OpenAPI document and no documentation
   * pages.
   */
  readonly operation?: 'here' | 'apart' | 'alone'
  /** True if no other machine can reach the front's port, so that `/readyz` may show details. */
  readonly isPrivate?: boolean
  readonly settings: FrontSettings
  readonly services: FrontServices
  readonly info: DocumentInfo
  /** Returns executable examples for the OpenAPI document. Called whenever a client requests the document. */
  readonly liveExamples?: () => Promise<LiveExamples>
  readonly log: Log
  /** Registry for the front's own metrics. */
  readonly registry?: Registry
  readonly clock?: Clock
  /** Called with the duration of each stage of a write. */
  readonly meter?: StageMeter
  readonly tracer?: Tracer | undefined
  /** Shares the event loop between IP addresses; without it, requests are served in the order of arrival. */
  readonly turns?: FairTurns | undefined
}

export type Front = {
  readonly port: number
  readonly registry: Registry
  /** Sends a message to every WebSocket of this thread that subscribed to the topic. */
  readonly publish: (topic: string, message: RecognizedString) => boolean
  readonly inFlight: () => number
  /**
   * Stops listening, lets requests in flight finish for at most `drainMs`, then closes every connection. A thread must
   * not exit before `close` has resolved.
   */
  readonly close: (options?: { readonly drainMs?: number }) => Promise<void>
}

const DRAIN_MS = 5_000
const NO_UPGRADE = reject(
  'INVALID_FIELD',
  'upgrade',
  'this path accepts only WebSockets: send the header Upgrade: websocket',
)
const EXCLUSIVE_PORT = 1
const SHARED_PORT = 0

/** Functions of the HTTP library that its types omit. */
type Listening = {
  listen(
    host: string,
    port: number,
    options: number,
    listening: (socket: us_listen_socket | false) => void,
  ): void
}
const { _cfg: configure } = uws as unknown as { _cfg: (key: string) => void }

/**
 * Returns the handler for requests that no route accepts: an unknown path, another method, or a WebSocket path without
 * an upgrade.
 */
function unroutedAnswer(
  compiled: readonly CompiledRoute[],
  { unmatched, unmatchedRelay }: Readonly<Record<'unmatched' | 'unmatchedRelay', CompiledRoute>>,
  pipeline: Pick<Pipeline, 'refuse' | 'preflight'>,
) {
  return (res: HttpResponse, req: HttpRequest): void => {
    const url = req.getUrl()
    const segments = url.split('/').slice(1)
    const here = compiled.filter((one) => matchesPath(one, segments))
    const first = here[0]
    if (first === undefined) {
      const absent = url.startsWith(RELAYER_PATH) ? unmatchedRelay : unmatched
      pipeline.refuse(absent, res, req, { rejection: reject('NOT_FOUND') })
      return
    }
    const methods = allowedMethods(here)
    if (req.getMethod() === 'options') pipeline.preflight(first, res, req, methods)
    else if (req.getMethod() === 'get' && first.route.kind === 'upgrade') {
      const headers = { upgrade: 'websocket' }
      pipeline.refuse(first, res, req, { rejection: NO_UPGRADE, headers })
    } else {
      const rejection = reject('METHOD_NOT_ALLOWED')
      pipeline.refuse(first, res, req, { rejection, headers: { allow: methods } })
    }
  }
}

export async function startFront(options: FrontOptions): Promise<Front> {
  const { settings, services, info, log } = options
  const clock = options.clock ?? systemClock
  const registry = options.registry ?? new Registry()
  const cors = makeCors(settings.corsOrigins)

  const { operation = 'here' } = options
  const operating = [
    readyz(services.readiness, { details: operation === 'alone' || options.isPrivate === true }),
    metrics(services.metrics ?? (() => registry.metrics())),
  ]
  const { liveExamples } = options
  const document = lazily(() => openapiDocument(info, table))
  const served = async () => withExamples(await document(), (await liveExamples?.()) ?? {})
  const isPersonal = liveExamples !== undefined
  const documents = [
    openapi(async () => JSON.stringify(await served()), isPersonal),
    postman(async () => JSON.stringify(postmanCollection(await served())), isPersonal),
    ...docs(`${info.title} API`),
  ]
  const table: Route[] = [
    ...options.routes,
    healthz(),
    ...(operation === 'apart' ? [] : operating),
    ...(operation === 'alone' ? [] : documents),
  ]
  const compiled = table.map((one) => compileRoute(one, cors.fixed))
  const unmatched = compileRoute(nowhere, cors.fixed)
  const unmatchedRelay = compileRoute(nowhereRelayed, cors.fixed)
  const pipeline = makePipeline({
    settings,
    cors,
    hooks: services,
    log,
    clock,
    requestIdOf: makeRequestIds(),
    meter: options.meter,
    tracer: options.tracer,
    turns: options.turns,
  })

  // Turns off the library's own header for this thread: it reveals the library's name and version.
  configure('silent')
  const app = App()
  const gate = makeConnectionGate({
    settings: { connectionsMax: Number.POSITIVE_INFINITY, ...settings },
    isTrusted: makeTrust(settings.trustedProxies ?? []),
    limit: services.limitConnection,
    count: () => countPeers(port),
    nowMs: clock.nowMs,
  })
  const watchConnection = (res: HttpResponse, change: number): void => {
    if (change < 0) {
      gate.closed()
      return
    }
    const refusal = gate.opened(ipText(res.getRemoteAddressAsText()))
    if (refusal !== undefined) turnAway(res, refusal, unmatched)
  }
  app.filter(watchConnection)
  for (const one of compiled) register(app, one, pipeline, gate.closed)
  app.any('/*', unroutedAnswer(compiled, { unmatched, unmatchedRelay }, pipeline))
  registerMeters(
    registry,
    [...compiled, unmatched, unmatchedRelay].map(({ meter }) => meter),
    {
      inFlight: pipeline.inFlight,
      refusedLate: pipeline.refusedLate,
      connections: gate.open,
    },
  )

  const socket = await listen(app, settings)
  const port = us_socket_local_port(socket as never)
  let closing: Promise<void> | undefined

  async function close(drainMs: number): Promise<void> {
    us_listen_socket_close(socket)
    let giveUp = (): void => undefined
    const late = new Promise<void>((resolve) => {
      giveUp = clock.after(drainMs, resolve)
    })
    await Promise.race([pipeline.drain(), late])
    giveUp()
    // The last answer may have been sent from a socket's callback, which must return before the connections are closed.
    await new Promise((resolve) => setImmediate(resolve))
    app.close()
  }

  return {
    port,
    registry,
    publish: (topic, message) => app.publish(topic, message),
    inFlight: pipeline.inFlight,
    close({ drainMs = DRAIN_MS } = {}) {
      closing ??= close(drainMs)
      return closing
    },
  }
}

/**
 * Refuses a new connection before the client has sent a request: sends an error answer and closes the connection. If
 * the refusal is silent, sends no answer.
 */
function turnAway(res: HttpResponse, refusal: Refusal, { jsonHead }: CompiledRoute): void {
  const { rejection, headers, isSilent = false } = refusal
  if (isSilent) {
    res.close()
    return
  }
  res.writeStatus(statusLine(ERRORS[rejection.rejected].status))
  res.writeHeader('content-type', jsonHead)
  for (const name in headers) res.writeHeader(name, headers[name]!)
  res.end(JSON.stringify(errorBody(rejection, sentenceOf(rejection))), true)
}

/**
 * Route for requests that no other route takes, so that their refusals are counted and formatted like those of other
 * routes.
 */
const nowhere: AnswerRoute = route({
  method: 'GET',
  path: '*',
  auth: 'public',
  cost: 'read',
  summary: 'nothing',
  responses: {},
  handle: () => reject('NOT_FOUND'),
})

const RELAYER_PATH = '/api/v1/relayer/'

/** Route for paths of the relayer that no other route takes, with errors in the relayer's shape. */
const nowhereRelayed: AnswerRoute = {
  ...nowhere,
  path: `${RELAYER_PATH}*`,
  errorBody: relayerErrorBody,
}

function register(
  app: TemplatedApp,
  compiled: CompiledRoute,
  pipeline: ReturnType<typeof makePipeline>,
  connectionClosed: () => void,
): void {
  const { pattern, route } = compiled
  if (route.kind === 'upgrade') {
    app.ws(pattern, {
      ...route.socket,
      upgrade: pipeline.serveUpgrade(compiled),
      // When an upgraded connection ends, the library does not notify the filter that counts connections. So report the
      // end of the connection here.
      close(socket, code, message) {
        connectionClosed()
        route.socket.close?.(socket, code, message)
      },
    })
    return
  }
  const serve = pipeline.serve(compiled, false)
  const handler: typeof serve = (res, req) => {
    // One turn of the event loop may handle many requests. Each request updates the heartbeat, so that a busy front
    // does not look stuck.
    beat()
    return serve(res, req)
  }
  if (route.method === 'GET') {
    app.get(pattern, handler)
    if (route.kind !== 'sse') app.head(pattern, pipeline.serve(compiled, true))
  } else if (route.method === 'POST') app.post(pattern, handler)
  else if (route.method === 'PUT') app.put(pattern, handler)
  else if (route.method === 'PATCH') app.patch(pattern, handler)
  else app.del(pattern, handler)
}

function allowedMethods(here: readonly CompiledRoute[]): string {
  const methods = new Set<string>(here.map(({ route }) => route.method))
  if (here.some(({ route }) => route.method === 'GET' && route.kind !== 'sse')) methods.add('HEAD')
  return [...methods, 'OPTIONS'].join(', ')
}

function listen(app: TemplatedApp, settings: FrontSettings): Promise<us_listen_socket> {
  const { host, port } = settings
  const mode = settings.sharePort === true ? SHARED_PORT : EXCLUSIVE_PORT
  return new Promise((resolve, reject) => {
    const listening = app as unknown as Listening
    listening.listen(host, port, mode, (socket) => {
      if (socket !== false) {
        resolve(socket)
        return
      }
      app.close()
      reject(listenFault(host, port))
    })
  })
}
