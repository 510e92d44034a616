/**
 * What a route declares: everything the front needs to check a request before the handler sees it,
 * and everything the OpenAPI document says about it. Types flow from the schemas to the handler.
 */

import type { HttpResponse, WebSocketBehavior } from 'uWebSockets.js'
import type { Static, TSchema } from 'typebox'
import type { Address } from '#domain/ids.ts'
import type { Rejection, RejectionCode } from '#domain/rejection.ts'
import type { RequestContext } from './request-context.ts'
import type { WriteStages } from './write-stages.ts'

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/**
 * P, W and R of the endpoint table: open to all, bearer token where the exchange asks for one,
 * wallet signature in the body; and `token`, for what always needs a bearer token.
 */
export type AuthClass = 'public' | 'write' | 'token' | 'wallet'

/** Which bucket a request is paid from. */
export type CostClass = 'free' | 'read' | 'write' | 'registration'

/** Who a bearer token belongs to. */
export type Principal = {
  readonly keyId: string
  readonly address: Address
  /** When its key expires, if ever. */
  readonly expiresAtSec?: number
}

export type RouteRequest<Path = unknown, Query = unknown, Body = unknown> = RequestContext & {
  readonly path: Path
  readonly query: Query
  readonly body: Body
  readonly requestId: string
  /** The headers that the route declared, by lower-case name; '' where the client sent none. */
  readonly headers: Readonly<Record<string, string>>
  /** The peer's address; '' unless the route declared `readsIp` or limits are on. */
  readonly ip: string
  /** Set on `token` routes, and on `write` routes when bearer authentication is on. */
  readonly principal: Principal | undefined
  /** Set on routes that declared `staged`. */
  readonly stages: WriteStages | undefined
}

export type Responses = Readonly<Record<number, TSchema>>

type HeaderLines = Readonly<Record<string, string>>

/** A value that the front serialises; its type is the schema of its status. */
type Reply<R extends Responses> = {
  [Status in keyof R & number]: {
    readonly status: Status
    readonly body: Static<R[Status]>
    readonly headers?: HeaderLines
  }
}[keyof R & number]

/** Bytes that are ready to go: hot reads serialise once and serve many times. */
export type RawReply = {
  readonly status: number
  readonly raw: string | Uint8Array
  readonly contentType?: string
  readonly headers?: HeaderLines
}

export type Answer<R extends Responses> = Reply<R> | RawReply | Rejection

/** A response that a route writes by itself from here on; the front has answered nothing yet. */
export type Takeover = {
  readonly res: HttpResponse
  /** Writes status and headers, the front's own included. Call it inside `res.cork`. */
  writeHead(contentType: string): void
  /** Runs once, when the client is gone or the front closes; `res` must not be touched any more. */
  onAborted(listener: () => void): void
}

export type Example = { readonly summary?: string; readonly value: unknown }

type Described = {
  readonly path: string
  readonly auth: AuthClass
  readonly cost: CostClass
  /** How many times the cost of its class a request is due, by the work that it makes; 1 if not said. */
  readonly weight?: number
  /** What a generated client calls it: a verb and what it is about. */
  readonly operationId?: string
  readonly summary: string
  readonly description?: string
  /** The heading it stands under in the document. */
  readonly tag?: string
  /** Codes it answers by itself; those of validation, limits and overload are added by the front. */
  readonly errors?: readonly RejectionCode[]
  /** Examples of rejections, where a code alone says too little. */
  readonly shownErrors?: readonly Rejection[]
  /** Request headers the handler reads, in lower case. */
  readonly headers?: readonly string[]
  readonly readsIp?: boolean
  /** Whether the time of its stages is taken, and told to clients that ask for it. */
  readonly staged?: boolean
  readonly deadlineMs?: number
  /** `Cache-Control` of its answers; `no-store` unless it says otherwise. */
  readonly cacheControl?: string
  /** Answers carry an entity tag, and a client that names it is told 304. GET only. */
  readonly revalidates?: boolean
  /** Answers that a browser renders need a policy of their own. */
  readonly contentSecurityPolicy?: string
  /** The shape of error bodies where it is not the general one. */
  readonly errorBody?: (rejection: Rejection, sentence: string) => object
  /** Left out of the OpenAPI document: assets of the documentation page. */
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
  /** What the document says of the body where the handler checks more of it than `body` does. */
  readonly shownBody?: TSchema
  /** The largest accepted body in bytes; by default that of a request for one item. */
  readonly bodyBytesMax?: number
  /** How often the cost is due where the body asks for several things at once. */
  readonly times?: (body: Static<Body>) => number
  /** How often the cost is due, by what the query asks for: a page deep in history is dearer. */
  readonly weigh?: (query: Static<Query>) => number
  /** Whether the body may be left out; the handler then sees undefined. */
  readonly bodyOptional?: boolean
  readonly responses: R
  /** Content type of the responses where it is not JSON. */
  readonly produces?: string
  readonly examples?: {
    readonly body?: Readonly<Record<string, Example>>
    readonly responses?: Readonly<Record<number, Readonly<Record<string, Example>>>>
  }
  readonly handle: (
    request: RouteRequest<Static<Path>, Static<Query>, Static<Body>>,
  ) => Answer<NoInfer<R>> | Promise<Answer<NoInfer<R>>>
}

/** Server-sent events: checked like any other route, then handed the open response. */
type SseDefinition<Path extends TSchema, Query extends TSchema> = Described & {
  readonly kind: 'sse'
  readonly method: 'GET'
  readonly params?: Path
  readonly query?: Query
  /** What the data of one event is. */
  readonly event: TSchema
  /** Why there is no stream for this request; it is answered as any refusal is. */
  readonly refuse?: (
    request: RouteRequest<Static<Path>, Static<Query>, undefined>,
  ) => Rejection | undefined
  readonly open: (
    request: RouteRequest<Static<Path>, Static<Query>, undefined>,
    takeover: Takeover,
  ) => void
}

/** A WebSocket: checked like any other route, then upgraded with what `accept` returned. */
type UpgradeDefinition<UserData extends object, Query extends TSchema> = Described & {
  readonly kind: 'upgrade'
  readonly method: 'GET'
  readonly query?: Query
  readonly accept: (
    request: RouteRequest<unknown, Static<Query>, undefined>,
  ) => UserData | Rejection | Promise<UserData | Rejection>
  readonly socket: Omit<WebSocketBehavior<UserData>, 'upgrade'>
}

/** Routes as the table holds them: checked one by one where they were defined, alike from there. */
export type AnswerRoute = RouteDefinition<TSchema, TSchema, TSchema, Responses>
type SseRoute = SseDefinition<TSchema, TSchema>
export type UpgradeRoute = UpgradeDefinition<object, TSchema>
export type Route = AnswerRoute | SseRoute | UpgradeRoute

/** Only the definition site knows the exact types, so only these three functions forget them. */
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

/** The most common answer. */
export function ok<Body>(body: Body): { readonly status: 200; readonly body: Body } {
  return { status: 200, body }
}
