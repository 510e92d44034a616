/**
 * Limits connections: in total, and per IP range. The library reports that a connection ended but not which one, so
 * connections per range cannot be counted here. They are read from the kernel's list, again every few seconds while a
 * range may have too many. Until then a range's rate limit bounds how many it can open.
 */

import { type Rejection, reject } from '#domain/rejection.ts'
import type { LimitVerdict } from './call.ts'
import { limitedRange, siteOf } from './client-ip.ts'

export type ConnectionSettings = {
  /** Maximum number of connections of this thread. */
  readonly connectionsMax: number
  /** Maximum number of connections of one IPv4 address or IPv6 /64 in all threads; unlimited by default. */
  readonly connectionsPerIpMax?: number
  /** An IPv6 /48 may have this many times as many connections as one /64. */
  readonly siteTimes?: number
}

type ConnectionGate = {
  /** Returns why a new connection must be closed; undefined if it may stay. */
  readonly opened: (ip: string) => Refusal | undefined
  readonly closed: () => void
  readonly open: () => number
}

export type Refusal = {
  readonly rejection: Rejection
  readonly headers: Readonly<Record<string, string>>
  /** True if the connection is closed without an answer, because the IP address keeps opening connections. */
  readonly isSilent?: boolean
}

/** Maximum age of the kernel's list by which a range is refused. */
const COUNT_EVERY_MS = 3_000
/** A range with this share of its limit is watched: other threads may hold more of its connections. */
const WATCHED_SHARE = 0.1

const BUSY: Refusal = { rejection: reject('OVERLOADED'), headers: { 'retry-after': '5' } }
const TOO_MANY: Refusal = {
  rejection: reject('RATE_LIMITED', undefined, 'too many connections from this IP address'),
  headers: { 'retry-after': '5' },
}

export function makeConnectionGate(ports: {
  readonly settings: ConnectionSettings
  /** A proxy carries many clients over one address, so only the total limit applies to it. */
  readonly isTrusted: (ip: string) => boolean
  /** Charges for the connection. */
  readonly limit?: ((ip: string) => LimitVerdict) | undefined
  /** Returns connections by IP range; undefined if the system does not list them. */
  readonly count: () => Promise<ReadonlyMap<string, number> | undefined>
  readonly nowMs: () => number
}): ConnectionGate {
  const { settings, isTrusted, limit, nowMs } = ports
  const perIpMax = settings.connectionsPerIpMax ?? Number.POSITIVE_INFINITY
  const { siteTimes = Number.POSITIVE_INFINITY } = settings
  let open = 0
  let byRange: ReadonlyMap<string, number> = new Map()
  let countedAtMs = Number.NEGATIVE_INFINITY
  let counting = false

  async function recount(): Promise<void> {
    counting = true
    byRange = (await ports.count().catch(() => undefined)) ?? new Map()
    countedAtMs = nowMs()
    counting = false
  }

  function hasTooMany(range: string): boolean {
    const site = siteOf(range)
    if ((byRange.get(range) ?? 0) > perIpMax) return true
    return site !== undefined && (byRange.get(site) ?? 0) > perIpMax * siteTimes
  }

  return {
    opened(ip) {
      open += 1
      if (open > settings.connectionsMax) return BUSY
      if (isTrusted(ip)) return undefined
      const verdict = limit?.(ip)
      if (verdict?.allowed === false) {
        const { headers, insists = false } = verdict
        return { rejection: reject('RATE_LIMITED'), headers, isSilent: insists }
      }
      if (open > perIpMax * WATCHED_SHARE) {
        if (!counting && nowMs() - countedAtMs >= COUNT_EVERY_MS) void recount()
        if (hasTooMany(limitedRange(ip))) return TOO_MANY
      }
      return undefined
    },
    closed() {
      open -= 1
    },
    open: () => open,
  }
}
