/** Hooks, settings and the log that a front passes to its pipeline. */

import type { Rejection } from '#domain/rejection.ts'
import type { Arrival, LimitHooks } from './charges.ts'
import type { AuthClass, Principal } from './route.ts'

/** The part of a pino logger that the front uses. */
export type Log = {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

export type Hooks = LimitHooks & {
  /**
   * Called for `write` and `token` routes; without this hook every client may write. If the hook returns undefined, the
   * request continues without a key.
   */
  readonly authenticate?: (
    arrival: Arrival,
  ) => Principal | undefined | Rejection | Promise<Principal | undefined | Rejection>
  /**
   * Returns whether `authenticate` is called for this class of routes. If this hook is absent, `authenticate` is called
   * for every `write` and `token` route.
   */
  readonly asks?: (auth: AuthClass) => boolean
}

export type PipelineSettings = {
  readonly deadlineMs: number
  readonly requestsInFlightMax: number
  /**
   * Maximum number of connections of one IPv4 address or IPv6 /64. The same maximum applies separately to its requests
   * in flight.
   */
  readonly connectionsPerIpMax?: number
  /**
   * Maximum number of connections, and of requests in flight, of one IPv6 /48, as a multiple of `connectionsPerIpMax`;
   * unlimited by default.
   */
  readonly siteTimes?: number
  /** IP addresses of proxies whose `X-Forwarded-For` is trusted. */
  readonly trustedProxies?: readonly string[]
  /** Every nth request is logged; 0 logs none. */
  readonly logEvery?: number
}
