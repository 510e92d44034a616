/**
 * Builds the OpenAPI 3.1 document from the route table alone, with the schemas that also validate requests. A schema
 * with a `title` is listed once under its title and referenced.
 */

import { strict as assert } from 'node:assert'
import { setImmediate } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { TSchema } from 'typebox'
import { REJECTION_CODES, type Rejection, type RejectionCode, reject } from '#domain/rejection.ts'
import { ERRORS, errorBody, relayerErrorBody, sentenceOf } from './errors.ts'
import type { AnswerRoute, AuthClass, Example, Route } from './route.ts'
import { scalarOf } from './schemas.ts'
import type { SchemaNode } from './validate.ts'

export type DocumentInfo = {
  readonly title: string
  readonly version: string
  readonly description?: string
  readonly license?: { readonly name: string; readonly identifier: string }
  /** Headings of the operations, in the order in which they appear. */
  readonly tags?: readonly { readonly name: string; readonly description: string }[]
}

/** Examples of request bodies that succeed on this exchange at present, by operation. */
export type LiveExamples = Readonly<Record<string, Readonly<Record<string, Example>>>>

type Json = Record<string, unknown>

type RequestBody = {
  readonly required: boolean
  readonly content: Readonly<Record<string, { schema: Json; examples?: Json }>>
}

type Operation = Json & { readonly operationId: string; readonly requestBody?: RequestBody }

type OpenapiDocument = Json & {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
}

/**
 * Place of a value: in a JSON body, or as text in a path or query. It decides how the schema of a scalar is written.
 */
type Place = 'body' | 'text'

/**
 * Builds the document. Pauses for one turn of the event loop after each route, so that other requests do not wait for
 * the whole document.
 */
export async function openapiDocument(
  { tags, ...info }: DocumentInfo,
  routes: readonly Route[],
): Promise<OpenapiDocument> {
  const components: Record<string, Json> = {}
  const document = new Map<string, Record<string, Operation>>()
  for (const route of routes) {
    if (route.hidden === true) continue
    const operations = document.get(route.path) ?? {}
    operations[route.method.toLowerCase()] = operation(route, components)
    document.set(route.path, operations)
    await setImmediate()
  }
  return {
    openapi: '3.1.0',
    info,
    servers: [{ url: '/', description: 'The server that sent this document' }],
    ...(tags === undefined ? {} : { tags }),
    paths: Object.fromEntries(document),
    components: {
      schemas: { ...components, Error: ERROR_SCHEMA, ...relayerError(routes) },
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description:
            'Token of the form base64url(payload).base64url(Ed25519 signature). Writes need it if the ' +
            'exchange uses bearer authentication. The section Authentication of this document describes it.',
        },
      },
    },
  }
}

/**
 * Returns the document with live examples of request bodies. They are placed before the examples that the route
 * declares.
 */
export function withExamples(document: OpenapiDocument, live: LiveExamples): OpenapiDocument {
  const shown = ({ operationId, requestBody, ...rest }: Operation): Operation => {
    const json = requestBody?.content['application/json']
    const first = live[operationId]
    if (requestBody === undefined || json === undefined || first === undefined) {
      return { operationId, ...rest, ...(requestBody === undefined ? {} : { requestBody }) }
    }
    const content = { 'application/json': { ...json, examples: { ...first, ...json.examples } } }
    return { operationId, ...rest, requestBody: { ...requestBody, content } }
  }
  const paths = Object.entries(document.paths).map(([path, operations]) => [
    path,
    Object.fromEntries(Object.entries(operations).map(([method, one]) => [method, shown(one)])),
  ])
  return { ...document, paths: Object.fromEntries(paths) }
}

const ERROR_SCHEMA = {
  type: 'object',
  required: ['error', 'code'],
  properties: {
    error: { type: 'string', description: 'Message for people: what is wrong, and what to do.' },
    code: {
      type: 'string',
      description: 'Stable name of the reason, for programs.',
    },
    field: {
      type: 'string',
      description:
        'Path of the invalid field, such as `order.price`; absent if no field is at fault.',
    },
    tradeIds: {
      type: 'array',
      items: { type: 'string' },
      description:
        'Ids of the trades that cause the rejection, oldest first; present only with the code TRADES_PENDING.',
    },
    requestId: {
      type: 'string',
      description: 'Id of the request, for a report to the operator; present only with status 500.',
    },
  },
}

/**
 * Returns the error schema of the relayer's routes: the general schema and the field `success`, which is always false.
 */
function relayerError(routes: readonly Route[]): Record<string, Json> {
  if (!routes.some(isRelayers)) return {}
  const { required, properties, ...rest } = ERROR_SCHEMA
  const success = { type: 'boolean', const: false }
  const schema = {
    ...rest,
    required: ['success', ...required],
    properties: { success, ...properties },
  }
  return { RelayerError: schema }
}

const isRelayers = (route: Route): boolean => route.errorBody === relayerErrorBody

function operation(route: Route, components: Record<string, Json>): Operation {
  const body = route.kind === undefined || route.kind === 'answer' ? route.body : undefined
  return {
    operationId: operationId(route),
    summary: route.summary,
    ...(route.description === undefined ? {} : { description: route.description }),
    ...(route.tag === undefined ? {} : { tags: [route.tag] }),
    ...(route.deprecation === undefined ? {} : { deprecated: true }),
    security: SECURITY[route.auth],
    // Factor that multiplies the cost that `/api/v1/config` states for the route's cost class.
    ...(route.weight === undefined ? {} : { 'x-weight': route.weight }),
    parameters: parameters(route, components),
    ...(body === undefined ? {} : { requestBody: requestBody(route as AnswerRoute, components) }),
    responses: { ...successes(route, components), ...failures(route) },
  }
}

/**
 * A `write` route needs a token if the exchange requires one. A `wallet` route needs no token, because a wallet's
 * signature is in the body.
 */
const SECURITY: Readonly<Record<AuthClass, readonly object[]>> = {
  public: [],
  wallet: [],
  write: [{ bearer: [] }, {}],
  token: [{ bearer: [] }],
}

function operationId(route: Route): string {
  if (route.operationId !== undefined) return route.operationId
  const words = route.path.split(/[/{}._-]+/).filter((word) => word !== '')
  return [route.method.toLowerCase(), ...words].join('-')
}

function parameters(route: Route, components: Record<string, Json>): Json[] {
  const listed: Json[] = []
  const params = 'params' in route ? route.params : undefined
  for (const [place, schema] of [
    ['path', params],
    ['query', route.query],
  ] as const) {
    const node = schema as SchemaNode | undefined
    for (const [name, part] of Object.entries(node?.properties ?? {})) {
      const { description, ...rest } = written(part, 'text', components)
      listed.push({
        name,
        in: place,
        required: place === 'path' || (node?.required?.includes(name) ?? false),
        ...(description === undefined ? {} : { description }),
        schema: rest,
      })
    }
  }
  const tagHeader = route.revalidates === true ? ['if-none-match'] : []
  for (const name of [...(route.headers ?? []), ...tagHeader]) {
    listed.push({ name, in: 'header', required: false, schema: { type: 'string' } })
  }
  return listed
}

function requestBody(route: AnswerRoute, components: Record<string, Json>): RequestBody {
  assert.ok(route.body !== undefined)
  return {
    required: route.bodyOptional !== true || route.shownBody !== undefined,
    content: {
      'application/json': {
        schema: written(route.shownBody ?? route.body, 'body', components),
        ...(route.examples?.body === undefined ? {} : { examples: route.examples.body }),
      },
    },
  }
}

function successes(route: Route, components: Record<string, Json>): Record<string, Json> {
  if (route.kind === 'upgrade')
    return { 101: { description: 'The connection is now a WebSocket.' } }
  if (route.kind === 'sse') {
    const schema = written(route.event, 'body', components)
    return {
      200: {
        description: 'The answer is a stream of server-sent events.',
        content: { 'text/event-stream': { schema } },
      },
    }
  }
  const responses: Record<string, Json> = {}
  for (const [status, schema] of Object.entries(route.responses)) {
    const examples = route.examples?.responses?.[Number(status)]
    const description = (schema as { description?: string }).description ?? describedStatus(status)
    responses[status] =
      status === '204'
        ? { description }
        : {
            description,
            ...(status === '200' && route.revalidates === true ? TAGGED : {}),
            content: {
              [route.produces ?? 'application/json']: {
                schema: written(schema, 'body', components),
                ...(examples === undefined ? {} : { examples }),
              },
            },
          }
  }
  if (route.revalidates === true)
    responses['304'] = {
      description:
        'Nothing has changed since the answer whose tag is in the header `If-None-Match` of the request.',
      ...TAGGED,
    }
  return responses
}

const TAGGED = {
  headers: {
    ETag: {
      description:
        'Tag of this answer. A request with this tag in the header `If-None-Match` gets 304 if nothing has ' +
        'changed.',
      schema: { type: 'string' },
    },
  },
}

function describedStatus(status: string): string {
  return status.startsWith('2') ? 'The request succeeded.' : 'The request was not carried out.'
}

/** Returns every rejection code that a route can return, including the codes of the front. */
function errorCodes(route: Route): RejectionCode[] {
  const codes = new Set<RejectionCode>(route.errors ?? [])
  const answers = route.kind === undefined || route.kind === 'answer'
  if (('params' in route && route.params !== undefined) || route.query !== undefined) {
    codes.add('INVALID_FIELD')
    if ((route.query as SchemaNode | undefined)?.required !== undefined) codes.add('MISSING_FIELD')
  }
  if (answers && route.body !== undefined) {
    for (const code of ['INVALID_JSON', 'INVALID_FIELD', 'MISSING_FIELD'] as const) codes.add(code)
    for (const code of ['REQUEST_TIMEOUT', 'BODY_TOO_LARGE'] as const) codes.add(code)
    codes.add('UNSUPPORTED_MEDIA_TYPE')
  }
  if (route.auth === 'write' || route.auth === 'token') {
    for (const code of UNAUTHORIZED_CODES) codes.add(code)
  }
  codes.add('RATE_LIMITED')
  codes.add('INTERNAL')
  codes.add('OVERLOADED')
  if (route.method !== 'GET') codes.add('OUTCOME_UNKNOWN')
  return [...codes]
}

const UNAUTHORIZED_CODES = REJECTION_CODES.filter((code) => code.startsWith('UNAUTHORIZED_'))

function failures(route: Route): Record<string, Json> {
  const byStatus = new Map<number, Record<string, Example>>()
  for (const code of errorCodes(route)) {
    const { status } = ERRORS[code]
    const examples = byStatus.get(status) ?? {}
    const rejection = shownRejection(route, code)
    const shape = route.errorBody ?? errorBody
    const body = shape(rejection, sentenceOf(rejection))
    examples[code] = { value: status === 500 ? { ...body, requestId: SHOWN_REQUEST_ID } : body }
    byStatus.set(status, examples)
  }
  const responses: Record<string, Json> = {}
  for (const [status, examples] of byStatus) {
    const schema = { $ref: `#/components/schemas/${isRelayers(route) ? 'RelayerError' : 'Error'}` }
    const canRetry = Object.keys(examples).some(
      (code) => ERRORS[code as RejectionCode].retryAfterSec !== undefined,
    )
    responses[String(status)] = {
      description: describedCodes(Object.keys(examples)),
      ...(canRetry ? { headers: { 'Retry-After': RETRY_AFTER } } : {}),
      content: { 'application/json': { schema, examples } },
    }
  }
  return responses
}

function describedCodes(codes: readonly string[]): string {
  const named = codes.length === 1 ? 'the code' : 'one of the codes'
  const unknown = codes.includes('OUTCOME_UNKNOWN')
    ? ' With OUTCOME_UNKNOWN, the exchange may have executed the request. With any other code, it has not.'
    : ''
  return `The request fails with ${named} ${codes.join(', ')}.${unknown}`
}

const SHOWN_REQUEST_ID = 'b7c2-1'
const RETRY_AFTER = {
  description: 'Time after which a retry can succeed, in seconds.',
  schema: { type: 'integer', minimum: 0 },
}

/**
 * Returns the rejection example that the route declares for the code. Without a declared example, returns a general
 * example. If the code concerns a field, the general example names a field of the route.
 */
function shownRejection(route: Route, code: RejectionCode): Rejection {
  const own = route.shownErrors?.find(({ rejected }) => rejected === code)
  if (own !== undefined) return own
  const params = 'params' in route ? route.params : undefined
  const answers = route.kind === undefined || route.kind === 'answer'
  const inputs = [route.query, answers ? (route.shownBody ?? route.body) : undefined, params]
  for (const input of inputs) {
    const { properties = {}, required = [] } = (input ?? {}) as SchemaNode
    const name = code === 'MISSING_FIELD' ? required[0] : Object.keys(properties)[0]
    const named = code === 'MISSING_FIELD' || code === 'INVALID_FIELD'
    if (named && name !== undefined) return reject(code, name)
  }
  return reject(code)
}

/** Returns a schema in the form of the document: scalars as JSON Schema, schemas with a title by reference. */
export function written(schema: TSchema, place: Place, components: Record<string, Json>): Json {
  const scalar = scalarOf(schema)
  if (scalar !== undefined) {
    return { ...(place === 'body' ? scalar.inBody : scalar.inText), ...(schema as Json) }
  }
  const copy: Json = {}
  for (const [key, value] of Object.entries(schema)) copy[key] = part(key, value, place, components)
  const { title } = copy
  if (typeof title !== 'string') return copy
  const known = components[title]
  assert.ok(
    known === undefined || isDeepStrictEqual(known, copy),
    `two different schemas are called ${title}`,
  )
  components[title] = copy
  return { $ref: `#/components/schemas/${title}` }
}

function part(
  key: string,
  value: unknown,
  place: Place,
  components: Record<string, Json>,
): unknown {
  if (key === 'properties') {
    const properties = value as Record<string, TSchema>
    return Object.fromEntries(
      Object.entries(properties).map(([name, one]) => [name, written(one, place, components)]),
    )
  }
  if (key === 'items') return written(value as TSchema, place, components)
  if (key === 'anyOf' || key === 'allOf' || key === 'oneOf') {
    return (value as TSchema[]).map((one) => written(one, place, components))
  }
  if (key === 'additionalProperties' && typeof value === 'object') {
    return written(value as TSchema, place, components)
  }
  return value
}
