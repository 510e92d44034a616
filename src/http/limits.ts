/**
 * Rate limits across all front threads, in memory of fixed size. Each IPv4 address, IPv6 /64, IPv6 /48 and API key has
 * a token bucket. A bucket is stored as one number: the time at which it will be full again (the generic cell rate
 * algorithm). So a full bucket needs no record.
 */

import {
  CONTRACT_SIGNATURES_BURST,
  CONTRACT_SIGNATURES_PER_SECOND,
  CONTRACT_SIGNATURES_STRANGERS_TIMES,
} from '#domain/limits.ts'
import type { LimitVerdict } from './call.ts'
import type { Arrival } from './charges.ts'
import { limitedRange, siteOf } from './client-ip.ts'
import type { Draw, Draws } from './draws.ts'
import type { CostClass, Principal } from './route.ts'
import { SharedTable, type SharedTableMemory } from './shared-table.ts'

export type LimitSettings = {
  /** Units per second that refill the bucket of an IP address, and the capacity of the bucket in units. */
  readonly ipPerSecond: number
  readonly ipBurst: number
  /** Rate and burst of an IPv6 /48, as a multiple of those of one /64. */
  readonly siteTimes: number
  readonly keyPerSecond: number
  readonly keyBurst: number
  /** Units that a request costs. */
  readonly readCost: number
  readonly writeCost: number
  readonly registrationCost: number
  /** Rate limit of orders that their traders cannot pay for: orders per second, and burst. */
  readonly unfundedPerSecond: number
  readonly unfundedBurst: number
  readonly connectionCost: number
}

export type Limiter = {
  /**
   * Charges for a request. The bucket of the IP address is charged on arrival, and the bucket of the API key once the
   * key is known. Health checks have a separate bucket, which other requests cannot empty.
   */
  readonly limit: (arrival: Arrival, principal: Principal | undefined) => LimitVerdict
  /**
   * Charges `times` times the request's cost to the bucket of the IP address and to the bucket of the API key. Used if
   * the number of items is known only from the body.
   *
   * `isDone` means that the work is already done. The charge is then always made, so a bucket may go into debt. The
   * verdict is a refusal only if a bucket was in debt before the charge.
   */
  readonly limitMore: (
    arrival: Arrival,
    principal: Principal | undefined,
    times: number,
    isDone?: boolean,
  ) => LimitVerdict
  readonly unfunded: UnfundedLimit
  readonly contractSignatures: ContractSignatureLimit
  /** Charges for opening a connection. Connections have a separate bucket, which requests cannot empty. */
  readonly limitConnection: (ip: string) => LimitVerdict
  /**
   * Charges amounts that other machines have already granted to clients. Takes them from the buckets of the same names
   * on this machine, even if a bucket becomes empty.
   */
  readonly drawnElsewhere: (draws: readonly Draw[]) => void
}

/** The client of a request: its IP address, and its API key if known. */
export type Asker = {
  readonly ip?: string | undefined
  readonly principal?: Principal | undefined
}

/**
 * Limits orders that their traders cannot pay for. The funds of an order are checked last, so such an order costs as
 * much work as a valid order. Each such order is charged to a separate bucket, which may go into debt. While the bucket
 * has too few units for an order, the client cannot place orders. The client's reads and cancels are not affected.
 */
export type UnfundedLimit = {
  count(ip: string, principal: Principal | undefined): void
  /** Returns the number of seconds during which no order is accepted; 0 if orders are accepted. */
  waitSec(ip: string, principal: Principal | undefined): number
}

/**
 * Rate limit of signature queries to contract accounts, for the client that causes them and for the account that is
 * queried.
 */
export type ContractSignatureLimit = {
  /** Charges for a query; returns the seconds to wait, or 0 if it is allowed. */
  draw(asker: Asker, account: string): number
}

/**
 * Maximum debt of a bucket, in milliseconds of refill time. Debt arises because many orders or answers may be in
 * progress when the first of them is charged.
 */
const OWED_MS_MAX = 60_000

type Bucket = { readonly name: string; readonly perSecond: number; readonly burst: number }

/** Number of refusals per second that one IP address gets immediately; further refusals are delayed. */
const REFUSALS_PER_SECOND = 10
const REFUSALS_BURST = 100

/** Maximum number of digests that a thread caches. The digest of a bucket's name is its key in the shared table. */
const DIGESTS_MAX = 4_096

/** Tolerance for rounding errors in sums of fractions. */
const FORGIVEN = 0.001

/** Returns a monotonic time that is the same in all threads. */
export function steadyMs(): number {
  return Number(process.hrtime.bigint()) / 1_000_000
}

function verdictOf(
  burst: number,
  drawn: {
    readonly allowed: boolean
    readonly spentMs: number
    readonly waitMs: number
    readonly unitMs: number
  },
): LimitVerdict {
  const { allowed, spentMs, waitMs, unitMs } = drawn
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

/** Makes the rate limit of orders whose traders lack the funds. */
function makeUnfunded(
  settings: LimitSettings,
  buckets: {
    readonly table: SharedTable
    readonly charge: (name: string, spentMs: number, capacityMs: number) => void
    readonly nowMs: () => number
    readonly noted: Draws['note'] | undefined
  },
): UnfundedLimit {
  const { table, charge, nowMs, noted } = buckets

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
  return {
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
  }
}

/**
 * Makes the rate limit of signature queries to contract accounts. A query is charged to the client's IP range and its
 * IPv6 /48, to the client's API key, and to the account. Any client may name any account, so an account has two
 * buckets. Clients with an API key of the account share the first, which no other client can use up. All other clients
 * share the second, which is larger.
 */
function makeContractSignatureLimit(
  draw: (bucket: Bucket, cost: number) => LimitVerdict,
  siteTimes: number,
): ContractSignatureLimit {
  const termsTimes = (times: number) => ({
    perSecond: times * CONTRACT_SIGNATURES_PER_SECOND,
    burst: times * CONTRACT_SIGNATURES_BURST,
  })
  const terms = termsTimes(1)
  const strangers = termsTimes(CONTRACT_SIGNATURES_STRANGERS_TIMES)
  const ofSite = termsTimes(siteTimes)
  return {
    draw({ ip, principal }, account) {
      const range = ip === undefined ? undefined : limitedRange(ip)
      const site = range === undefined ? undefined : siteOf(range)
      const buckets = [
        ...(range === undefined ? [] : [{ name: `1271 ${range}`, ...terms }]),
        ...(site === undefined ? [] : [{ name: `1271 ${site}`, ...ofSite }]),
        ...(principal === undefined ? [] : [{ name: `1271 ${principal.keyId}`, ...terms }]),
        principal?.address === account
          ? { name: `1271 own ${account}`, ...terms }
          : { name: `1271 ${account}`, ...strangers },
      ]
      for (const bucket of buckets) {
        const { allowed, headers } = draw(bucket, 1)
        if (!allowed) return Number(headers['retry-after'] ?? 1)
      }
      return 0
    },
  }
}

export function makeLimiter(
  settings: LimitSettings,
  memory: SharedTableMemory,
  nowMs: () => number = steadyMs,
  noted?: Draws['note'],
): Limiter {
  const table = new SharedTable(memory, DIGESTS_MAX)
  const costs: Record<CostClass, number> = {
    health: settings.readCost,
    read: settings.readCost,
    write: settings.writeCost,
    registration: settings.registrationCost,
  }

  function draw({ name, perSecond, burst }: Bucket, cost: number, isDone = false): LimitVerdict {
    const unitMs = 1_000 / perSecond
    const capacityMs = burst * unitMs
    let allowed = true
    let spentMs = 0
    let waitMs = 0
    table.update(
      name,
      (fullAtMs) => {
        // The clock is read inside the lock, so that the time is never earlier than a time that another thread has
        // recorded.
        const now = nowMs()
        const beforeMs = Math.max(0, fullAtMs - now)
        const afterMs = beforeMs + cost * unitMs
        allowed = (isDone ? beforeMs : afterMs) <= capacityMs + FORGIVEN * unitMs
        if (isDone) spentMs = Math.min(afterMs, capacityMs + OWED_MS_MAX)
        else spentMs = allowed ? afterMs : beforeMs
        waitMs = allowed ? 0 : spentMs + (isDone ? 1 : cost) * unitMs - capacityMs
        return allowed || isDone ? now + spentMs : undefined
      },
      // If the table has no room for a new bucket, it evicts the least used bucket of the same set. The evicted bucket
      // then counts as full, so its client regains only the units that it had spent. No client is refused because of a
      // full table.
      () => true,
    )
    if ((allowed || isDone) && noted !== undefined) noted(name, cost * unitMs, capacityMs)
    return verdictOf(burst, { allowed, spentMs, waitMs, unitMs })
  }

  /** Charges for work that is already done. Adds `spentMs` to the spent part of the bucket, up to `capacityMs`. */
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

  const ofRange = (range: string, times: number, what: string): Bucket => ({
    name: `${what} ${range}`,
    perSecond: settings.ipPerSecond * times,
    burst: settings.ipBurst * times,
  })
  /**
   * Charges an IP range and its /48. Without the charge to the /48, a client with a /48 could use the limits of 65,536
   * ranges of /64.
   */
  function drawFor(ip: string, units: number, what = 'ip', isDone = false): LimitVerdict {
    const range = limitedRange(ip)
    const site = siteOf(range)
    const verdict = draw(ofRange(range, 1, what), units, isDone)
    if (!verdict.allowed && !isDone) return refusedTo(range, verdict)
    const whole =
      site === undefined ? verdict : draw(ofRange(site, settings.siteTimes, what), units, isDone)
    const strictest = verdict.allowed ? whole : verdict
    return strictest.allowed ? verdict : refusedTo(range, strictest)
  }
  function refusedTo(range: string, verdict: LimitVerdict): LimitVerdict {
    const refusals = { perSecond: REFUSALS_PER_SECOND, burst: REFUSALS_BURST }
    return draw({ name: `refused ${range}`, ...refusals }, 1).allowed
      ? verdict
      : { ...verdict, insists: true }
  }
  const ofKey = ({ keyId }: Principal): Bucket => ({
    name: `key ${keyId}`,
    perSecond: settings.keyPerSecond,
    burst: settings.keyBurst,
  })

  return {
    limit: ({ ip, cost, weight = 1 }, principal) =>
      principal === undefined
        ? drawFor(ip, costs[cost] * weight, cost === 'health' ? 'health' : 'ip')
        : draw(ofKey(principal), costs[cost] * weight),
    limitMore({ ip, cost, weight = 1 }, principal, times, isDone) {
      const units = costs[cost] * weight * times
      const verdict = drawFor(ip, units, 'ip', isDone)
      if (!verdict.allowed || principal === undefined) return verdict
      return draw(ofKey(principal), units, isDone)
    },
    unfunded: makeUnfunded(settings, { table, charge, nowMs, noted }),
    contractSignatures: makeContractSignatureLimit(draw, settings.siteTimes),
    limitConnection: (ip) => drawFor(ip, settings.connectionCost, 'connections'),
    drawnElsewhere(draws) {
      for (const [name, drawnMs, capacityMs] of draws) charge(name, drawnMs, capacityMs)
    },
  }
}
