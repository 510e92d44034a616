/**
 * Shares the event loop of a front fairly between addresses. One turn of the loop may receive thousands of requests and
 * frames. Their work is done at once for about a millisecond; the rest waits. Between two slices of waiting work the
 * loop serves all sockets and threads. The address that has used the least time lately comes first, and one that has
 * done nothing for a moment never waits. So the orders of a modest client pass the queues of greedy ones, however many
 * these are.
 */

import { WAITING_BYTES_MAX } from '#domain/limits.ts'
import { beat } from '#runtime/heartbeat.ts'

export type FairTurns = {
  /** Returns the time if work of this address may be done now; undefined if it must wait. */
  begin(ip: string): number | undefined
  /** Counts the time of work that was done now. */
  done(ip: string, beganMs: number): void
  /** Does the work in a later turn, after earlier work of its address; returns false if too much of it waits. */
  wait(ip: string, work: WaitingWork): boolean
  /** Undefined if the address may do long work now; otherwise resolves in a turn that does nothing else. */
  next(ip: string): Promise<void> | undefined
  waiting(): number
}

type WaitingWork = {
  readonly bytes: number
  readonly run: () => void
  /** Refuses the work, because too much waits and most of it is of this address. */
  readonly refuse: () => void
}

/** Work of one turn; a longer turn would be noticed by clients that wait for several of them. */
export const SLICE_MS = 1
/** Work done at once that counts no more after each unit of other time. */
const SHARE_AT_ONCE = 0.5
/** An address that has done nothing for this long never waits. */
export const QUIET_MS = 10
/** Time in which most of what an address has used is forgotten. */
const FORGOTTEN_MS = 1_000
/** Waiting work of one address, and in all. */
const WAITING_PER_IP_MAX = 1_000
const WAITING_MAX = 5_000
/** Number of addresses that are remembered. */
const ADDRESSES_MAX = 10_000
/** Number of waiting addresses that are compared; all get to the front of the line. */
const COMPARED_MAX = 50

type Work = WaitingWork & {
  /** True if the cost arises only after `run` has returned: then nothing else runs in the same turn. */
  readonly isAlone: boolean
}
type Address = {
  /** Time used lately, at the time of its last work. */
  usedMs: number
  lastMs: number
}
type Queue = { readonly work: Work[]; readonly address: Address; bytes: number }

type Queues = ReadonlyMap<string, Queue>

/** Returns the time that the address has used lately. */
function usedBy({ usedMs, lastMs }: Address, now: number): number {
  return usedMs === 0 ? 0 : usedMs * Math.exp((lastMs - now) / FORGOTTEN_MS)
}

function count(address: Address, sinceMs: number, now: number): void {
  address.usedMs = usedBy(address, now) + now - sinceMs
  address.lastMs = now
}

/** Returns the queue of the address that has used the least. */
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
    /** Calls back after the loop has served its sockets. */
    readonly soon?: (then: () => void) => void
  } = {},
): FairTurns {
  const { nowMs = () => performance.now(), soon = setImmediate } = ports
  const addresses = new Map<string, Address>()
  const queues = new Map<string, Queue>()
  let [waiting, waitingBytes] = [0, 0]
  /** Time of the work done at once that counts, and when it was counted. */
  let [spentMs, spentAtMs] = [0, 0]
  let isPlanned = false
  /** Work of which only the start has been counted. */
  let going: { readonly address: Address; readonly sinceMs: number } | undefined

  function addressOf(ip: string): Address {
    const known = addresses.get(ip)
    if (known !== undefined) return known
    if (addresses.size >= ADDRESSES_MAX) addresses.clear()
    const address = { usedMs: 0, lastMs: Number.NEGATIVE_INFINITY }
    addresses.set(ip, address)
    return address
  }

  function plan(): void {
    if (isPlanned || (queues.size === 0 && going === undefined)) return
    isPlanned = true
    soon(slice)
  }

  function take(ip: string, queue: Queue): Work | undefined {
    const work = queue.work.shift()
    // The address goes to the end of the line.
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
      if (work?.isAlone === true) going = { address, sinceMs: now }
      const afterMs = nowMs()
      count(address, now, afterMs)
      now = afterMs
    }
    plan()
  }

  /** Makes room by refusing work of the address with the most of it. */
  function shed(): void {
    const most = largest(queues)
    if (most !== undefined) take(...most)?.refuse()
  }

  function wait(ip: string, work: Work): boolean {
    const queue = queues.get(ip) ?? { work: [], address: addressOf(ip), bytes: 0 }
    if (queue.work.length >= WAITING_PER_IP_MAX) return false
    queue.work.push(work)
    queue.bytes += work.bytes
    queues.set(ip, queue)
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
    if (queues.has(ip)) return undefined
    return now - addressOf(ip).lastMs >= QUIET_MS ? now : undefined
  }

  function done(ip: string, beganMs: number): void {
    const now = nowMs()
    spentMs = spentBy(beganMs) + now - beganMs
    spentAtMs = now
    count(addressOf(ip), beganMs, now)
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
      // The request was admitted, so this work is never refused.
      return wait(ip, { bytes: 0, run, refuse: run, isAlone: true }) ? promise : undefined
    },
    waiting: () => waiting,
  }
}
