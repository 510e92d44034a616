/**
 * Shares the event loop of a front fairly between IP addresses. The addresses of an IPv6 /64 count as one. One turn of
 * the loop may receive thousands of requests and frames. The front does about a millisecond of this work immediately
 * and queues the rest. Queued work runs in slices, and the loop serves all sockets and threads between two slices. The
 * address that has used the least time lately is served first. An address that was idle for 10 ms never waits.
 * Therefore, clients that send many requests cannot delay the orders of a client that sends few.
 */

import { WAITING_BYTES_MAX } from '#domain/limits.ts'
import { beat } from '#runtime/heartbeat.ts'
import { limitedRange } from './client-ip.ts'

export type FairTurns = {
  /** Returns the current time if work of this IP address may be done immediately; undefined if it must wait. */
  begin(ip: string): number | undefined
  /** Counts the time of work that was done immediately. */
  done(ip: string, beganMs: number): void
  /**
   * Queues the work for a later turn, after earlier work of the same IP address. Returns false if too much work of this
   * address already waits.
   */
  wait(ip: string, work: WaitingWork): boolean
  /**
   * Schedules long work of this IP address. Returns undefined if the caller may start now. Also returns undefined if
   * too much work of the address already waits. Otherwise returns a promise. In the turn of the event loop in which the
   * promise resolves, no further queued work runs.
   */
  next(ip: string): Promise<void> | undefined
  waiting(): number
}

type WaitingWork = {
  readonly bytes: number
  readonly run: () => void
  /** Called instead of `run` if the queue is full in total and this IP address has the most waiting work. */
  readonly refuse: () => void
}

/**
 * Maximum duration in milliseconds of the waiting work that is done in one turn. Longer turns would noticeably delay
 * clients that wait for several turns.
 */
export const SLICE_MS = 1
/** Maximum share of the thread's time that is spent on immediate work. */
const SHARE_AT_ONCE = 0.5
/** Idle time in milliseconds after which an IP address never waits. */
export const QUIET_MS = 10
/**
 * Time constant in milliseconds by which the used time of an IP address decays. After this time, about a third of the
 * used time still counts.
 */
const FORGOTTEN_MS = 1_000
/**
 * Maximum number of waiting tasks of one IP address, and of all IP addresses together. Tasks above a maximum
 * are refused.
 */
const WAITING_PER_IP_MAX = 1_000
const WAITING_MAX = 5_000
/** Maximum number of IP addresses whose used time is remembered. Above it, the oldest entry is forgotten. */
export const ADDRESSES_MAX = 10_000
/**
 * Number of waiting addresses that are compared to choose the next task. After each of its tasks an address moves to
 * the end of the line, so every address is compared sooner or later.
 */
const COMPARED_MAX = 50

type Work = WaitingWork & {
  /** True if the work continues after `run` has returned. No further queued work then runs in the same turn. */
  readonly isAlone: boolean
}
type Address = {
  /** Time used recently by this IP address in milliseconds, computed at `lastMs`. */
  usedMs: number
  lastMs: number
}
type Queue = { readonly work: Work[]; readonly address: Address; bytes: number }

type Queues = ReadonlyMap<string, Queue>

/** Returns the time that the IP address has used lately; older use counts less. */
function usedBy({ usedMs, lastMs }: Address, now: number): number {
  return usedMs === 0 ? 0 : usedMs * Math.exp((lastMs - now) / FORGOTTEN_MS)
}

function count(address: Address, sinceMs: number, now: number): void {
  address.usedMs = usedBy(address, now) + now - sinceMs
  address.lastMs = now
}

/** Returns the queue of the address that has used the least time lately. */
function leastServed(queues: Queues, now: number): [ip: string, queue: Queue] | undefined {
  let least: [string, Queue] | undefined
  let [leastMs, compared] = [Number.POSITIVE_INFINITY, 0]
  for (const entry of queues) {
    const usedMs = usedBy(entry[1].address, now)
    if (usedMs < leastMs) [least, leastMs] = [entry, usedMs]
    if (++compared >= COMPARED_MAX) break
  }
  return least
}

/** Returns the queue with the most waiting work. */
function largest(queues: Queues): [ip: string, queue: Queue] | undefined {
  let most: [string, Queue] | undefined
  const sizeOf = ({ bytes, work }: Queue) => bytes / WAITING_BYTES_MAX + work.length / WAITING_MAX
  for (const entry of queues) {
    if (most === undefined || sizeOf(entry[1]) > sizeOf(most[1])) most = entry
  }
  return most
}

export function makeFairTurns(
  ports: {
    readonly nowMs?: () => number
    /** Calls `then` after the event loop has served its sockets. */
    readonly soon?: (then: () => void) => void
  } = {},
): FairTurns {
  const { nowMs = () => performance.now(), soon = setImmediate } = ports
  const addresses = new Map<string, Address>()
  const queues = new Map<string, Queue>()
  let [waiting, waitingBytes] = [0, 0]
  /** Recent time spent on immediate work in milliseconds, and the time at which `spentMs` was computed. */
  let [spentMs, spentAtMs] = [0, 0]
  let isPlanned = false
  /**
   * Set if the last task of a slice continues after its `run` has returned. When the next slice begins, the time since
   * that return is charged to the task's IP address.
   */
  let going: { readonly address: Address; readonly sinceMs: number } | undefined

  function addressOf(range: string): Address {
    const known = addresses.get(range)
    if (known !== undefined) return known
    const [oldest] = addresses.keys()
    if (addresses.size >= ADDRESSES_MAX && oldest !== undefined) addresses.delete(oldest)
    const address = { usedMs: 0, lastMs: Number.NEGATIVE_INFINITY }
    addresses.set(range, address)
    return address
  }

  function plan(): void {
    if (isPlanned || (queues.size === 0 && going === undefined)) return
    isPlanned = true
    soon(slice)
  }

  function take(ip: string, queue: Queue): Work | undefined {
    const work = queue.work.shift()
    // Moves the IP address to the end of the line.
    queues.delete(ip)
    if (queue.work.length > 0) queues.set(ip, queue)
    if (work === undefined) return undefined
    queue.bytes -= work.bytes
    waitingBytes -= work.bytes
    waiting--
    return work
  }

  function slice(): void {
    isPlanned = false
    let now = nowMs()
    if (going !== undefined) count(going.address, going.sinceMs, now)
    going = undefined
    const endMs = now + SLICE_MS
    while (now < endMs && going === undefined) {
      const least = leastServed(queues, now)
      if (least === undefined) break
      const work = take(...least)
      beat()
      work?.run()
      const { address } = least[1]
      const afterMs = nowMs()
      count(address, now, afterMs)
      if (work?.isAlone === true) going = { address, sinceMs: afterMs }
      now = afterMs
    }
    plan()
  }

  /** Makes room: refuses work of the IP address that has the most work waiting. */
  function shed(): void {
    const most = largest(queues)
    if (most !== undefined) take(...most)?.refuse()
  }

  function wait(ip: string, work: Work): boolean {
    const range = limitedRange(ip)
    const queue = queues.get(range) ?? { work: [], address: addressOf(range), bytes: 0 }
    if (queue.work.length >= WAITING_PER_IP_MAX) return false
    queue.work.push(work)
    queue.bytes += work.bytes
    queues.set(range, queue)
    waiting++
    waitingBytes += work.bytes
    while (waiting > WAITING_MAX || waitingBytes > WAITING_BYTES_MAX) shed()
    plan()
    return true
  }

  const spentBy = (now: number): number => Math.max(0, spentMs - SHARE_AT_ONCE * (now - spentAtMs))

  function begin(ip: string): number | undefined {
    const now = nowMs()
    if (queues.size === 0 && spentBy(now) < SLICE_MS) return now
    const range = limitedRange(ip)
    if (queues.has(range)) return undefined
    return now - addressOf(range).lastMs >= QUIET_MS ? now : undefined
  }

  function done(ip: string, beganMs: number): void {
    const now = nowMs()
    spentMs = spentBy(beganMs) + now - beganMs
    spentAtMs = now
    count(addressOf(limitedRange(ip)), beganMs, now)
  }

  return {
    begin,
    done,
    wait: (ip, work) => wait(ip, { ...work, isAlone: false }),
    next(ip) {
      const beganMs = begin(ip)
      if (beganMs !== undefined) {
        done(ip, beganMs - SLICE_MS)
        return undefined
      }
      const { promise, resolve: run } = Promise.withResolvers<void>()
      // The request was already admitted, so its work must start even if the full queue drops this task. Therefore
      // `refuse` starts the work, as `run` does.
      return wait(ip, { bytes: 0, run, refuse: run, isAlone: true }) ? promise : undefined
    },
    waiting: () => waiting,
  }
}
