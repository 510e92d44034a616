/**
 * Rate limits that hold across all front threads: a token bucket per IP range and one per API key,
 * in memory of fixed size. A bucket is one number, the time at which it will be full again (the
 * generic cell rate algorithm), so that a bucket nobody draws from needs no record.
 */

import { limitedRange } from './client-ip.ts'
import type { LimitVerdict } from './exchange.ts'
import type { Arrival } from './pipeline.ts'
import type { CostClass, Principal } from './route.ts'
import { SharedTable, type SharedTableMemory } from './shared-table.ts'

export type LimitSettings = {
  /** Units that flow into a bucket each second, and how many it holds. */
  readonly ipPerSecond: number
  readonly ipBurst: number
  readonly keyPerSecond: number
  readonly keyBurst: number
  /** Units that a request costs. */
  readonly readCost: number
  readonly writeCost: number
  readonly registrationCost: number
}

export type Limiter = {
  /** Draws what a request costs: from its IP's bucket on arrival, from its key's once it is known. */
  readonly limit: (arrival: Arrival, principal: Principal | undefined) => LimitVerdict
  /** Draws for further writes of a request whose size shows only in its body. */
  readonly drawWrites: (ip: string, principal: Principal | undefined, writes: number) => boolean
}

type Draw = { readonly allowed: boolean; readonly remaining: number; readonly waitMs: number }

export function makeLimiter(
  settings: LimitSettings,
  memory: SharedTableMemory,
  nowMs: () => number,
): Limiter {
  const table = new SharedTable(memory)
  const costs: Record<CostClass, number> = {
    free: 0,
    read: settings.readCost,
    write: settings.writeCost,
    registration: settings.registrationCost,
  }

  function draw(bucket: string, perSecond: number, burst: number, cost: number): Draw {
    const now = nowMs()
    const unitMs = 1_000 / perSecond
    const capacityMs = burst * unitMs
    let answer: Draw = { allowed: true, remaining: burst, waitMs: 0 }
    table.update(
      bucket,
      (fullAtMs) => {
        const next = Math.max(fullAtMs, now) + cost * unitMs
        const allowed = next - now <= capacityMs
        const kept = allowed ? next : fullAtMs
        const remaining = Math.max(0, Math.floor((capacityMs - (kept - now)) / unitMs))
        answer = { allowed, remaining, waitMs: allowed ? 0 : next - now - capacityMs }
        return allowed ? next : undefined
      },
      (fullAtMs) => fullAtMs <= now,
    )
    // A table without room for one more bucket lets the request pass: it is crowded by others, and
    // refusing everybody new would do their work for them.
    return answer
  }

  const ofIp = (ip: string, cost: number) =>
    draw(`ip ${limitedRange(ip)}`, settings.ipPerSecond, settings.ipBurst, cost)
  const ofKey = (principal: Principal, cost: number) =>
    draw(`key ${principal.keyId}`, settings.keyPerSecond, settings.keyBurst, cost)

  return {
    limit({ ip, cost }, principal) {
      return principal === undefined
        ? verdictOf(ofIp(ip, costs[cost]), settings.ipPerSecond, settings.ipBurst)
        : verdictOf(ofKey(principal, costs[cost]), settings.keyPerSecond, settings.keyBurst)
    },
    drawWrites(ip, principal, writes) {
      const cost = writes * settings.writeCost
      if (!ofIp(ip, cost).allowed) return false
      return principal === undefined || ofKey(principal, cost).allowed
    },
  }
}

function verdictOf(draw: Draw, perSecond: number, burst: number): LimitVerdict {
  const waitSec = Math.max(1, Math.ceil(draw.waitMs / 1_000))
  const resetSec = Math.ceil((burst - draw.remaining) / perSecond)
  return {
    allowed: draw.allowed,
    headers: {
      'ratelimit-limit': String(burst),
      'ratelimit-remaining': String(draw.remaining),
      'ratelimit-reset': String(resetSec),
      ...(draw.allowed ? {} : { 'retry-after': String(waitSec) }),
    },
  }
}
