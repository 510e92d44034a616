/** A route ready to serve: validators compiled, fixed response lines joined, meter attached. */

import { strict as assert } from 'node:assert'
import { SMALL_BODY_BYTES_MAX } from '#domain/limits.ts'
import type { HeaderLine } from './cors.ts'
import { deprecationLines } from './deprecation.ts'
import { type Meter, makeMeter } from './meters.ts'
import type { Route } from './route.ts'
import { compileParameters, compileValidator, type Parameter, type Validator } from './validate.ts'

export const JSON_TYPE = 'application/json'

export type CompiledRoute = {
  readonly route: Route
  /** The path in the syntax of uWebSockets.js, with `:name`. */
  readonly pattern: string
  readonly segments: readonly string[]
  /** Path parameters, in the order in which they occur in the path. */
  readonly params: readonly Parameter[]
  readonly query: readonly Parameter[]
  /** True if the query has required parameters, so that even a missing query must be validated. */
  readonly queryRequired: boolean
  readonly body: Validator | undefined
  readonly bodyOptional: boolean
  readonly bodyBytesMax: number
  readonly headerNames: readonly string[]
  readonly meter: Meter
  /**
   * Values of the `content-type` header, by content type. Each value also contains the fixed header lines of
   * a response, separated by line breaks.
   */
  readonly heads: Map<string, string>
  readonly jsonHead: string
  /**
   * Like `jsonHead`, but forbids caching. Used for answers that are not successes. If they were cached, a cache that
   * clients share could send the refusal of one client to the others.
   */
  readonly refusedHead: string
  readonly fixed: readonly HeaderLine[]
}

const NOT_KEPT: HeaderLine = ['cache-control', 'no-store']
const API_POLICY = "default-src 'none'; frame-ancestors 'none'"

export function compileRoute(route: Route, corsLines: readonly HeaderLine[]): CompiledRoute {
  const segments = route.path.split('/').slice(1)
  const paramNames = segments.filter(isParameter).map((segment) => segment.slice(1, -1))
  const params = compileParameters('params' in route ? route.params : undefined)
  assert.deepEqual(
    params.map(({ name }) => name).sort(),
    [...paramNames].sort(),
    `${route.path} and its params schema must have the same parameters`,
  )
  const query = compileParameters(route.query)
  const answers = route.kind === undefined || route.kind === 'answer'
  const body = answers ? route.body : undefined
  assert.ok(
    body === undefined || route.method !== 'GET',
    `${route.path}: a GET must not have a body`,
  )
  const fixed: HeaderLine[] = [
    ['x-content-type-options', 'nosniff'],
    ['cache-control', route.cacheControl ?? 'no-store'],
    ['content-security-policy', route.contentSecurityPolicy ?? API_POLICY],
    ...corsLines,
    ...(route.deprecation === undefined ? [] : deprecationLines(route.deprecation)),
  ]
  const jsonHead = headBlock(JSON_TYPE, fixed)
  return {
    route,
    pattern: route.path.replaceAll('{', ':').replaceAll('}', ''),
    segments,
    params: paramNames.map((name) => {
      const parameter = params.find((one) => one.name === name)
      assert.ok(parameter !== undefined, `${route.path} has no schema for ${name}`)
      return parameter
    }),
    query,
    queryRequired: query.some(({ required }) => required),
    body: body === undefined ? undefined : compileValidator(body),
    bodyOptional: answers && route.bodyOptional === true,
    bodyBytesMax: (answers ? route.bodyBytesMax : undefined) ?? SMALL_BODY_BYTES_MAX,
    headerNames: route.headers ?? [],
    meter: makeMeter(route.method, route.path),
    heads: new Map([[JSON_TYPE, jsonHead]]),
    jsonHead,
    refusedHead: headBlock(
      JSON_TYPE,
      fixed.map((line) => (line[0] === 'cache-control' ? NOT_KEPT : line)),
    ),
    fixed,
  }
}

/**
 * Joins the content type and the constant header lines with line breaks. The front writes them as the value
 * of one header, because each `writeHeader` is a call into native code.
 */
function headBlock(contentType: string, lines: readonly HeaderLine[]): string {
  return [contentType, ...lines.map(([name, value]) => `${name}: ${value}`)].join('\r\n')
}

/**
 * Returns the content type joined with the fixed header lines, from a cache. The cache needs no limit: content types
 * come from routes and never from clients, so they are few.
 */
export function headOf(compiled: CompiledRoute, contentType: string): string {
  let head = compiled.heads.get(contentType)
  if (head === undefined) {
    assert.ok(compiled.heads.size < 16, 'a route must have at most 16 content types')
    head = headBlock(contentType, compiled.fixed)
    compiled.heads.set(contentType, head)
  }
  return head
}

function isParameter(segment: string): boolean {
  return segment.startsWith('{')
}

/** Returns whether the path belongs to this route, whatever the method. */
export function matchesPath(compiled: CompiledRoute, segments: readonly string[]): boolean {
  return (
    compiled.segments.length === segments.length &&
    compiled.segments.every((one, at) =>
      isParameter(one) ? segments[at] !== '' : one === segments[at],
    )
  )
}
