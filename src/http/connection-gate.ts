/**
 * Limits connections, in total and per IP range. When a connection ends, the library does not report which one it was.
 * So the gate cannot count connections per range itself. Instead it reads these counts from the kernel's list of TCP
 * connections, at most every 3 s while many connections are open. Between two reads, a range's rate limit bounds the
 * number of connections that it can open.
 */

import { type Rejection, reject } from '#domain/rejection.ts'
import type { LimitVerdict } from './call.ts'
import { limitedRange, siteOf } from './client-ip.ts'

export type ConnectionSettings = {
  /** Maximum number of connections of this thread. */
  readonly connectionsMax: number
  /** Maximum number of connections of one IPv4 address or IPv6 /64 in all threads; unlimited by default. */
  readonly connectionsPerIpMax?: number
  /** Maximum number of connections of an IPv6 /48, as a multiple of the maximum of one /64. */
  readonly siteTimes?: number
}

type ConnectionGate = {
  /** Returns a refusal if the new connection must be closed; undefined if it may stay. */
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

/** Minimum time between two reads of the kernel's list of TCP connections, in milliseconds. */
const COUNT_EVERY_MS = 3_000
/**
 * Age in milliseconds from which the counts per IP range are ignored. The counts are not updated while few connections
 * are open. So old counts may be from a time when a client had far more connections than now.
 */
const COUNTS_OLD_MS = 2 * COUNT_EVERY_MS
/**
 * Share of the limit per IP range. The kernel's list of TCP connections is read only while this thread has more
 * connections in total than this share of the limit. The share is small, because a range may have more connections in
 * other threads.
 */
const WATCHED_SHARE = 0.1

const BUSY: Refusal = { rejection: reject('OVERLOADED'), headers: { 'retry-after': '5' } }
const TOO_MANY: Refusal = {
  rejection: reject(
    'RATE_LIMITED',
    undefined,
    'too many open connections from this IP address: close some of them, or retry later',
  ),
  headers: { 'retry-after': '5' },
}

export function makeConnectionGate(ports: {
  readonly settings: ConnectionSettings
  /**
   * Returns whether an IP address belongs to a trusted proxy. A proxy carries many clients over one address, so only
   * the total limit applies to it.
   */
  readonly isTrusted: (ip: string) => boolean
  /** Charges an IP address for a new connection. */
  readonly limit?: ((ip: string) => LimitVerdict) | undefined
  /** Returns the number of connections by IP range; undefined if the system does not list connections. */
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
    if (nowMs() - countedAtMs >= COUNTS_OLD_MS) return false
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
