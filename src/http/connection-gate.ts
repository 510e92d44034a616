/**
 * Which connections may stay: so many in all, so many of one IP range. The library tells when a
 * connection ends but not whose it was, so those of one range cannot be counted here; they are taken
 * from the kernel's own list, which is read again every few seconds while any range could have too
 * many. Until then a range can open no more than its rate limit pays for.
 */

import { type Rejection, reject } from '#domain/rejection.ts'
import type { LimitVerdict } from './call.ts'
import { limitedRange, siteOf } from './client-ip.ts'

export type ConnectionSettings = {
  /** Connections of this thread. */
  readonly connectionsMax: number
  /** Connections of one IPv4 address or IPv6 /64, in all threads; none if it is left out. */
  readonly connectionsPerIpMax?: number
  /** How many times as many an IPv6 /48 may have as one /64 of it. */
  readonly siteTimes?: number
}

type ConnectionGate = {
  /** Why the connection must not stay; undefined lets it in. */
  readonly opened: (ip: string) => Refusal | undefined
  readonly closed: () => void
  readonly open: () => number
}

export type Refusal = {
  readonly rejection: Rejection
  readonly headers: Readonly<Record<string, string>>
  /** True if the connection is closed without an answer: the address goes on opening connections. */
  readonly isSilent?: boolean
}

/** How old the list may be by which a range is refused. */
const COUNT_EVERY_MS = 3_000
/** From this share of the limit on, a range may be near it: other threads hold some, too. */
const WATCHED_SHARE = 0.1

const BUSY: Refusal = { rejection: reject('OVERLOADED'), headers: { 'retry-after': '5' } }
const TOO_MANY: Refusal = {
  rejection: reject('RATE_LIMITED', undefined, 'too many connections from this address'),
  headers: { 'retry-after': '5' },
}

export function makeConnectionGate(ports: {
  readonly settings: ConnectionSettings
  /** Proxies carry many clients over one address, so only the number in all binds them. */
  readonly isTrusted: (ip: string) => boolean
  /** Pays for the connection. */
  readonly limit?: ((ip: string) => LimitVerdict) | undefined
  /** Connections by IP range; undefined where the system cannot tell. */
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
