/**
 * Deprecated routes: the headers of their answers (RFC 9745 and RFC 8594), and the table that lists them. If the table
 * lists a route that does not exist, the front does not start.
 */

import { strict as assert } from 'node:assert'
import type { HeaderLine } from './cors.ts'
import type { Deprecation, Route } from './route.ts'

/** Deprecations by method and path, such as `GET /api/v1/config`. */
export type Deprecations = Readonly<Record<string, Deprecation>>

/** Returns the routes; those in the table are marked as deprecated. */
export function withDeprecations(routes: readonly Route[], table: Deprecations): Route[] {
  const left = new Map(Object.entries(table))
  const marked = routes.map((route) => {
    const name = `${route.method} ${route.path}`
    const deprecation = left.get(name)
    left.delete(name)
    return deprecation === undefined ? route : { ...route, deprecation }
  })
  assert.deepEqual([...left.keys()], [], 'every deprecated route in the table must exist')
  return marked
}

export function deprecationLines({ since, sunset, link }: Deprecation): HeaderLine[] {
  const sinceMs = dayMs(since)
  const lines: HeaderLine[] = [['deprecation', `@${sinceMs / 1_000}`]]
  if (sunset !== undefined) {
    assert.ok(
      dayMs(sunset) >= sinceMs,
      `the sunset of a route must not be before its deprecation on ${since}`,
    )
    lines.push(['sunset', new Date(dayMs(sunset)).toUTCString()])
  }
  if (link !== undefined) {
    assert.match(link, /^[\x21-\x7e]+$/, 'the link of a deprecation must be a URL without spaces')
    lines.push(['link', `<${link}>; rel="deprecation"`])
  }
  return lines
}

function dayMs(day: string): number {
  assert.match(day, /^\d{4}-\d\d-\d\d$/, 'the day of a deprecation must have the form 2026-11-18')
  const ms = Date.parse(`${day}T00:00:00Z`)
  assert.ok(Number.isFinite(ms), `${day} is not a day of the calendar`)
  return ms
}
