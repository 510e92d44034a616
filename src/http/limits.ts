/**
 * Rate limits that hold across all front threads: a token bucket per IPv4 address or IPv6 /64, a larger
 * one per IPv6 /48, and one per API key, in memory of fixed size. A bucket is one number, the time at which it will be full again (the
 * generic cell rate algorithm), so that a bucket that is not drawn from needs no record.
 */

import type { LimitVerdict } from './call.ts'
import type { Arrival } from './charges.ts'
import { limitedRange, siteOf } from './client-ip.ts'
import type { Draw, Draws } from './draws.ts'
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
  /** Orders that their traders cannot pay for: so many a second, and at once. */
  readonly unfundedPerSecond: number
  readonly unfundedBurst: number
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
  readonly unfunded: UnfundedLimit
  /** Draws what opening a connection costs, from a bucket of its own: requests leave room for connections. */
  readonly limitConnection: (ip: string) => LimitVerdict
  /** Draws what other machines have let pass, whatever is left. */
  readonly drawnElsewhere: (draws: readonly Draw[]) => void
}

/** Who asks, as far as it is known. */
export type Asker = {
  readonly ip?: string | undefined
  readonly principal?: Principal | undefined
}

/**
 * An order that its trader cannot pay for makes as much work as a good one, and that it is one shows at the end
 * only. So it is counted then, in a bucket of its own that can owe; who owes places nothing until it is paid,
 * and reads and cancels as ever.
 */
export type UnfundedLimit = {
  count(ip: string, principal: Principal | undefined): void
  /** For how many seconds no order is taken; 0 for none. */
  waitSec(ip: string, principal: Principal | undefined): number
}

/** The most that it can owe: many orders may be under way when the first of them is refused. */
const OWED_MS_MAX = 60_000

type Bucket = { readonly name: string; readonly perSecond: number; readonly burst: number }

/** Refusals of one address that are sent at once; from then on it insists. */
const REFUSALS_PER_SECOND = 10
const REFUSALS_BURST = 100

/** Buckets whose digest a thread keeps. */
const DIGESTS_MAX = 4_096

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
  const table = new SharedTable(memory, DIGESTS_MAX)
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

  const ofRange = (range: string, times: number, what = 'ip'): Bucket => ({
    name: `${what} ${range}`,
    perSecond: settings.ipPerSecond * times,
    burst: settings.ipBurst * times,
  })
  /** From the range, and from the site that it is part of: who has one /64 may have 65,536 of them. */
  function drawFor(ip: string, units: number, what?: string): LimitVerdict {
    const range = limitedRange(ip)
    const site = siteOf(range)
    const verdict = draw(ofRange(range, 1, what), units)
    if (!verdict.allowed) return refusedTo(range, verdict)
    if (site === undefined) return verdict
    const whole = draw(ofRange(site, settings.siteTimes, what), units)
    return whole.allowed ? verdict : refusedTo(range, whole)
  }
  function refusedTo(range: string, verdict: LimitVerdict): LimitVerdict {
    const refusals = { perSecond: REFUSALS_PER_SECOND, burst: REFUSALS_BURST }
    return draw({ name: `refused ${range}`, ...refusals }, 1).allowed
      ? verdict
      : { ...verdict, insists: true }
  }
  function unfundedOf(ip: string, principal: Principal | undefined): Bucket[] {
    const { unfundedPerSecond: perSecond, unfundedBurst: burst, siteTimes } = settings
    const range = limitedRange(ip)
    const site = siteOf(range)
    const buckets = [{ name: `unfunded ${range}`, perSecond, burst }]
    if (site !== undefined) {
      const [wider, more] = [perSecond * siteTimes, burst * siteTimes]
      buckets.push({ name: `unfunded ${site}`, perSecond: wider, burst: more })
    }
    if (principal !== undefined) {
      buckets.push({ name: `unfunded ${principal.keyId}`, perSecond, burst })
    }
    return buckets
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
    unfunded: {
      count(ip, principal) {
        for (const { name, perSecond, burst } of unfundedOf(ip, principal)) {
          const [unitMs, mostMs] = [1_000 / perSecond, (1_000 * burst) / perSecond + OWED_MS_MAX]
          charge(name, unitMs, mostMs)
          noted?.(name, unitMs, mostMs)
        }
      },
      waitSec(ip, principal) {
        let waitMs = 0
        for (const { name, perSecond, burst } of unfundedOf(ip, principal)) {
          table.update(
            name,
            (fullAtMs) => {
              const leftMs = (1_000 * burst) / perSecond - Math.max(0, fullAtMs - nowMs())
              waitMs = Math.max(waitMs, 1_000 / perSecond - leftMs)
              return undefined
            },
            () => true,
          )
        }
        return waitMs <= FORGIVEN ? 0 : Math.ceil(waitMs / 1_000)
      },
    },
    limitConnection: (ip) => drawFor(ip, settings.connectionCost, 'connections'),
    drawnElsewhere(draws) {
      for (const [name, drawnMs, capacityMs] of draws) charge(name, drawnMs, capacityMs)
    },
  }
}
