/**
 * Rate limits that hold across all front threads: a token bucket per IPv4 address or IPv6 /64, a larger
 * one per IPv6 /48, and one per API key, in memory of fixed size. A bucket is one number, the time at which it will be full again (the
 * generic cell rate algorithm), so that a bucket that is not drawn from needs no record.
 */

import type { LimitVerdict } from './call.ts'
import { limitedRange, siteOf } from './client-ip.ts'
import type { Draw, Draws } from './draws.ts'
import type { Arrival } from './pipeline.ts'
import type { CostClass, Principal } from './route.ts'
import { SharedTable, type SharedTableMemory } from './shared-table.ts'

export type LimitSettings = {
  /** Units that flow into a bucket each second, and how many it holds. */
  readonly ipPerSecond: number
  readonly ipBurst: number
  /** How many times as much an IPv6 /48 may spend as one /64 of it. */
  readonly siteTimes: number
  readonly keyPerSecond: number
  readonly keyBurst: number
  /** Units that a request costs. */
  readonly readCost: number
  readonly writeCost: number
  readonly registrationCost: number
  /** What an order costs besides that its trader cannot pay for. */
  readonly unfundedCost: number
  readonly connectionCost: number
}

export type Limiter = {
  /** Draws what a request costs: from its IP's bucket on arrival, from its key's once it is known. */
  readonly limit: (arrival: Arrival, principal: Principal | undefined) => LimitVerdict
  /** Draws so many times the cost more, from both: for what shows in the body only. */
  readonly limitMore: (
    arrival: Arrival,
    principal: Principal | undefined,
    times: number,
  ) => LimitVerdict
  /** Draws what an order costs besides that its trader cannot pay for: whatever is left, the next one waits. */
  readonly chargeUnfunded: (ip: string, principal: Principal | undefined) => void
  /** Draws what opening a connection costs. */
  readonly limitConnection: (ip: string) => LimitVerdict
  /** Draws what other machines have let pass, whatever is left. */
  readonly drawnElsewhere: (draws: readonly Draw[]) => void
}

type Bucket = { readonly name: string; readonly perSecond: number; readonly burst: number }

/** Sums of fractions are a little off; so much of a unit is forgiven. */
const FORGIVEN = 0.001

/** Never goes back, and is the same in all threads. */
export function steadyMs(): number {
  return Number(process.hrtime.bigint()) / 1_000_000
}

export function makeLimiter(
  settings: LimitSettings,
  memory: SharedTableMemory,
  nowMs: () => number = steadyMs,
  noted?: Draws['note'],
): Limiter {
  const table = new SharedTable(memory)
  const costs: Record<CostClass, number> = {
    free: 0,
    read: settings.readCost,
    write: settings.writeCost,
    registration: settings.registrationCost,
  }

  function draw({ name, perSecond, burst }: Bucket, cost: number): LimitVerdict {
    const unitMs = 1_000 / perSecond
    const capacityMs = burst * unitMs
    let allowed = true
    let spentMs = 0
    let waitMs = 0
    table.update(
      name,
      (fullAtMs) => {
        // Read inside the lock, so that time is never behind what another thread recorded.
        const now = nowMs()
        const beforeMs = Math.max(0, fullAtMs - now)
        const afterMs = beforeMs + cost * unitMs
        allowed = afterMs <= capacityMs + FORGIVEN * unitMs
        spentMs = allowed ? afterMs : beforeMs
        waitMs = allowed ? 0 : afterMs - capacityMs
        return allowed ? now + afterMs : undefined
      },
      // In a set that is full, the bucket that has been drawn from least gives way: a client that
      // crowds the table gains what that one had spent, and no client is refused because of another.
      () => true,
    )
    if (allowed && noted !== undefined) noted(name, cost * unitMs, capacityMs)
    const remaining = Math.max(0, Math.floor(burst - spentMs / unitMs + FORGIVEN))
    return {
      allowed,
      headers: {
        'ratelimit-limit': String(burst),
        'ratelimit-remaining': String(remaining),
        'ratelimit-reset': String(Math.ceil(spentMs / 1_000)),
        ...(allowed ? {} : { 'retry-after': String(Math.max(1, Math.ceil(waitMs / 1_000))) }),
      },
    }
  }

  /** Draws what has been had already; a bucket can be empty, and not more than that. */
  function charge(name: string, spentMs: number, capacityMs: number): void {
    table.update(
      name,
      (fullAtMs) => {
        const now = nowMs()
        return now + Math.min(capacityMs, Math.max(0, fullAtMs - now) + spentMs)
      },
      () => true,
    )
  }

  const ofRange = (range: string, times: number): Bucket => ({
    name: `ip ${range}`,
    perSecond: settings.ipPerSecond * times,
    burst: settings.ipBurst * times,
  })
  /** From the range, and from the site that it is part of: who has one /64 may have 65,536 of them. */
  function drawFor(ip: string, units: number): LimitVerdict {
    const range = limitedRange(ip)
    const site = siteOf(range)
    const verdict = draw(ofRange(range, 1), units)
    if (site === undefined || !verdict.allowed) return verdict
    const whole = draw(ofRange(site, settings.siteTimes), units)
    return whole.allowed ? verdict : whole
  }
  const ofKey = ({ keyId }: Principal): Bucket => ({
    name: `key ${keyId}`,
    perSecond: settings.keyPerSecond,
    burst: settings.keyBurst,
  })

  return {
    limit: ({ ip, cost, weight = 1 }, principal) =>
      principal === undefined
        ? drawFor(ip, costs[cost] * weight)
        : draw(ofKey(principal), costs[cost] * weight),
    limitMore({ ip, cost, weight = 1 }, principal, times) {
      const units = costs[cost] * weight * times
      const verdict = drawFor(ip, units)
      if (!verdict.allowed || principal === undefined) return verdict
      return draw(ofKey(principal), units)
    },
    chargeUnfunded(ip, principal) {
      const range = limitedRange(ip)
      const site = siteOf(range)
      const buckets = [ofRange(range, 1)]
      if (site !== undefined) buckets.push(ofRange(site, settings.siteTimes))
      if (principal !== undefined) buckets.push(ofKey(principal))
      for (const { name, perSecond, burst } of buckets) {
        const unitMs = 1_000 / perSecond
        charge(name, settings.unfundedCost * unitMs, burst * unitMs)
        noted?.(name, settings.unfundedCost * unitMs, burst * unitMs)
      }
    },
    limitConnection: (ip) => drawFor(ip, settings.connectionCost),
    drawnElsewhere(draws) {
      for (const [name, drawnMs, capacityMs] of draws) charge(name, drawnMs, capacityMs)
    },
  }
}
