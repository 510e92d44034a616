/**
 * Decides which browser pages may read the answers, by a list of allowed origins. If the list contains `*`, every
 * response has the same fixed CORS header. Otherwise the header of a response repeats the page's origin if the origin
 * is in the list.
 */

/** Exposed headers. The API uses no cookies, so the wildcard covers every header. */
const EXPOSED = '*'
const REQUEST_HEADERS =
  'accept-receipt, authorization, content-type, if-none-match, x-request-id, x-server-timing'
const PREFLIGHT_SECONDS = 600

export type HeaderLine = readonly [name: string, value: string]

export type Cors = {
  /** Lines that every response carries. */
  readonly fixed: readonly HeaderLine[]
  /** True if responses depend on the request's `Origin`. */
  readonly byOrigin: boolean
  readonly allows: (origin: string) => boolean
  readonly preflight: (methods: string) => readonly HeaderLine[]
}

export function makeCors(origins: readonly string[]): Cors {
  const any = origins.includes('*')
  const listed = new Set(origins)
  const exposed: HeaderLine = ['access-control-expose-headers', EXPOSED]
  return {
    fixed: any
      ? [['access-control-allow-origin', '*'], exposed]
      : listed.size > 0
        ? [['vary', 'origin'], exposed]
        : [],
    byOrigin: !any && listed.size > 0,
    allows: (origin) => any || listed.has(origin),
    preflight: (methods) => [
      ['access-control-allow-methods', methods],
      ['access-control-allow-headers', REQUEST_HEADERS],
      ['access-control-max-age', String(PREFLIGHT_SECONDS)],
    ],
  }
}
