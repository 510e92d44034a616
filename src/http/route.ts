/**
 * Declaration of a route: everything that the front checks before the handler runs, and everything that the OpenAPI
 * document contains about it. The handler's types are derived from the schemas.
 */

import type { HttpResponse, WebSocketBehavior } from 'uWebSockets.js'
import type { Static, TSchema } from 'typebox'
import type { Address } from '#domain/ids.ts'
import type { Rejection, RejectionCode } from '#domain/rejection.ts'
import type { RequestContext } from './request-context.ts'
import type { WriteStages } from './write-stages.ts'

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/**
 * Access to a route. `public`: open to all. `write`: a bearer token if the exchange requires one. `token`: always a
 * bearer token. `wallet`: a wallet's signature in the body.
 */
export type AuthClass = 'public' | 'write' | 'token' | 'wallet'

/** Class of a request that decides how many units the request costs. */
export type CostClass = 'health' | 'read' | 'write' | 'registration'

/** Owner of a bearer token. */
export type Principal = {
  readonly keyId: string
  readonly address: Address
  /** Time at which the principal's key expires, if ever. */
  readonly expiresAtSec?: number
}

export type RouteRequest<Path = unknown, Query = unknown, Body = unknown> = RequestContext & {
  readonly path: Path
  readonly query: Query
  readonly body: Body
  readonly requestId: string
  /** Headers that the route declared, by lower-case name; '' if the client sent none. */
  readonly headers: Readonly<Record<string, string>>
  /** The client's IP address; '' unless the route declared `readsIp` or limits are enabled. */
  readonly ip: string
  /** Set on `token` routes, and on `write` routes if bearer authentication is enabled. */
  readonly principal: Principal | undefined
  /** Set if the route declared `staged`, or if it declared `traced` and the request is traced. */
  readonly stages: WriteStages | undefined
}

export type Responses = Readonly<Record<number, TSchema>>

type HeaderLines = Readonly<Record<string, string>>

/** A value that the front serialises. The type of the value is derived from the response schema of its status. */
type Reply<R extends Responses> = {
  [Status in keyof R & number]: {
    readonly status: Status
    readonly body: Static<R[Status]>
    readonly headers?: HeaderLines
  }
}[keyof R & number]

/** Response bytes: frequent reads are serialised once and served many times. */
export type RawReply = {
  readonly status: number
  readonly raw: string | Uint8Array
  readonly contentType?: string
  readonly headers?: HeaderLines
}

export type Answer<R extends Responses> = Reply<R> | RawReply | Rejection

/** A response that the route writes itself; the front has not sent anything. */
export type Takeover = {
  readonly res: HttpResponse
  /** Writes status and headers, including the front's own. Call it inside `res.cork`. */
  writeHead(contentType: string): void
  /** Called once, when the client has gone or the front closes; `res` must not be touched after that. */
  onAborted(listener: () => void): void
}

/** Dates of a route's deprecation and removal, and the page that describes its successor. */
export type Deprecation = {
  /** A day, as `2026-11-18`. */
  readonly since: string
  /** The day from which the route may be removed. */
  readonly sunset?: string
  /** URL of a page that names the replacement. */
  readonly link?: string
}

export type Example = { readonly summary?: string; readonly value: unknown }

type Described = {
  readonly path: string
  readonly auth: AuthClass
  readonly cost: CostClass
  /** Factor that multiplies the cost of the route's class, for routes that cause more work; 1 by default. */
  readonly weight?: number
  /** Method name in generated clients: a verb and its object. */
  readonly operationId?: string
  readonly summary: string
  readonly description?: string
  /** The route's heading in the OpenAPI document. */
  readonly tag?: string
  /** Codes that the handler returns. The front adds the codes of validation, limits and overload. */
  readonly errors?: readonly RejectionCode[]
  /** Examples of rejections, for codes that need a detail. */
  readonly shownErrors?: readonly Rejection[]
  /** Request headers that the handler reads, in lower case. */
  readonly headers?: readonly string[]
  readonly readsIp?: boolean
  /** True if the route's stages are measured, and returned to clients that ask for them. */
  readonly staged?: boolean
  /** True if requests of the route are traced without measuring their stages, for example requests with many orders. */
  readonly traced?: boolean
  readonly deadlineMs?: number
  /** `Cache-Control` of the route's answers; `no-store` by default. */
  readonly cacheControl?: string
  /**
   * True if answers have an entity tag. A client that sends the tag back gets 304 while the answer is unchanged. GET
   * only.
   */
  readonly revalidates?: boolean
  /** Replaces the API's `Content-Security-Policy`, for pages that a browser renders. */
  readonly contentSecurityPolicy?: string
  /** Builds the route's error bodies, if their shape differs from the general one. */
  readonly errorBody?: (rejection: Rejection, sentence: string) => object
  readonly deprecation?: Deprecation
  /** True if the route is omitted from the OpenAPI document, for example an asset of the documentation page. */
  readonly hidden?: boolean
}

type RouteDefinition<
  Path extends TSchema,
  Query extends TSchema,
  Body extends TSchema,
  R extends Responses,
> = Described & {
  readonly kind?: 'answer'
  readonly method: Method
  readonly params?: Path
  readonly query?: Query
  readonly body?: Body
  /** Schema of the body in the OpenAPI document, if the handler checks rules that `body` does not contain. */
  readonly shownBody?: TSchema
  /** Maximum size of the body in bytes; by default the maximum for a request with one item. */
  readonly bodyBytesMax?: number
  /** Returns the factor that multiplies the cost, if the body may contain several items. */
  readonly times?: (body: Static<Body>) => number
  /** Returns the factor that multiplies the cost of a query, because a page deep in history is more expensive. */
  readonly weigh?: (query: Static<Query>) => number
  /** True if the body may be omitted; the handler then gets undefined. */
  readonly bodyOptional?: boolean
  readonly responses: R
  /** Content type of the responses; JSON by default. */
  readonly produces?: string
  readonly examples?: {
    readonly body?: Readonly<Record<string, Example>>
    readonly responses?: Readonly<Record<number, Readonly<Record<string, Example>>>>
  }
  readonly handle: (
    request: RouteRequest<Static<Path>, Static<Query>, Static<Body>>,
  ) => Answer<NoInfer<R>> | Promise<Answer<NoInfer<R>>>
}

/**
 * A route of server-sent events. Its request is validated like any other; then the route writes to the open response.
 */
type SseDefinition<Path extends TSchema, Query extends TSchema> = Described & {
  readonly kind: 'sse'
  readonly method: 'GET'
  readonly params?: Path
  readonly query?: Query
  /** Schema of the data of one event. */
  readonly event: TSchema
  /** Returns a rejection if this request gets no stream. The rejection is sent like any other. */
  readonly refuse?: (
    request: RouteRequest<Static<Path>, Static<Query>, undefined>,
  ) => Rejection | undefined
  /** Returns the events with which the stream begins. The client is charged for their length, as for an answer. */
  readonly first?: (request: RouteRequest<Static<Path>, Static<Query>, undefined>) => string
  readonly open: (
    request: RouteRequest<Static<Path>, Static<Query>, undefined>,
    takeover: Takeover,
    first: string,
  ) => void
}

/**
 * A WebSocket route. Its request is validated like any other; then the connection is upgraded with the value that
 * `accept` returned.
 */
type UpgradeDefinition<UserData extends object, Query extends TSchema> = Described & {
  readonly kind: 'upgrade'
  readonly method: 'GET'
  readonly query?: Query
  readonly accept: (
    request: RouteRequest<unknown, Static<Query>, undefined>,
  ) => UserData | Rejection | Promise<UserData | Rejection>
  readonly socket: Omit<WebSocketBehavior<UserData>, 'upgrade'>
}

/** A route in the table. Its exact types were checked where it was defined; here all routes share one type. */
export type AnswerRoute = RouteDefinition<TSchema, TSchema, TSchema, Responses>
type SseRoute = SseDefinition<TSchema, TSchema>
export type UpgradeRoute = UpgradeDefinition<object, TSchema>
export type Route = AnswerRoute | SseRoute | UpgradeRoute

/**
 * Converts a route to the general type that all routes in the table have. The exact types of a route are known only
 * where it is defined, so only `route`, `sseRoute` and `upgradeRoute` convert it.
 */
export function route<
  Path extends TSchema,
  Query extends TSchema,
  Body extends TSchema,
  const R extends Responses,
>(definition: RouteDefinition<Path, Query, Body, R>): AnswerRoute {
  return definition as unknown as AnswerRoute
}

export function sseRoute<Path extends TSchema, Query extends TSchema>(
  definition: SseDefinition<Path, Query>,
): SseRoute {
  return definition as unknown as SseRoute
}

export function upgradeRoute<UserData extends object, Query extends TSchema>(
  definition: UpgradeDefinition<UserData, Query>,
): UpgradeRoute {
  return definition as unknown as UpgradeRoute
}

export function ok<Body>(body: Body): { readonly status: 200; readonly body: Body } {
  return { status: 200, body }
}
