/**
 * Requests in flight: requests that are not answered before the library's callback returns. Until a request in flight
 * ends, it has an abort handler and a deadline.
 */

import { UNREAD_BYTES_MAX, UNREAD_BYTES_PER_ADDRESS_MAX } from '#domain/limits.ts'
import type { Clock } from '#runtime/clock.ts'
import type { Call } from './call.ts'
import { makeRangeCounts, type RangeCounts } from './range-counts.ts'

type HeldCalls = {
  /** Attaches the abort handler and the deadline of a request that cannot be answered immediately. */
  readonly hold: (call: Call) => void
  /** Removes a request that has ended. */
  readonly release: (call: Call) => void
  readonly size: () => number
  /** Returns whether the client's IP range has the maximum of requests in flight. */
  readonly isFullFor: RangeCounts['isFull']
  /** Counts the bytes of a long answer until its client has read them. */
  readonly sending: (call: Call, bytes: number) => void
  /** Returns whether the client's IP range has too many unread bytes of long answers. */
  readonly isUnread: RangeCounts['isFull']
  readonly isDraining: () => boolean
  /** Closes each connection after its next answer. Resolves when no request is in flight. */
  readonly drain: () => Promise<void>
}

/** Interval of the deadline check in milliseconds. A missed deadline is detected at most this much later. */
const SWEEP_MS = 50

export function makeHeldCalls(options: {
  readonly clock: Clock
  /** Called at each deadline check for every request that is past its deadline, until that request ends. */
  readonly overdue: (call: Call) => void
  /**
   * Maximum number of requests in flight of one IPv4 address or IPv6 /64. An IPv6 /48 may have `siteTimes`
   * times as many.
   */
  readonly perIpMax: number
  readonly siteTimes: number | undefined
}): HeldCalls {
  const { clock, overdue, perIpMax, siteTimes } = options
  const held = new Set<Call>()
  const ranges = makeRangeCounts({ perRangeMax: perIpMax, siteTimes })
  const unread = makeRangeCounts({
    perRangeMax: UNREAD_BYTES_PER_ADDRESS_MAX,
    totalMax: UNREAD_BYTES_MAX,
    siteTimes,
  })
  let draining = false
  let sweeping = false
  let drained: (() => void) | undefined

  function release(call: Call): void {
    if (held.delete(call)) {
      const { ip } = call.request
      ranges.add(ip, -1)
      unread.add(ip, -call.unreadBytes)
    }
    if (held.size === 0 && drained !== undefined) drained()
  }

  function gone(call: Call): void {
    if (call.phase === 'over') {
      call.onGone?.()
      return
    }
    call.phase = 'over'
    call.compiled.meter.aborted += 1
    release(call)
  }

  function sweep(): void {
    const nowMs = clock.nowMs()
    for (const call of held) {
      if (call.request.deadlineAtMs <= nowMs) overdue(call)
    }
    sweeping = held.size > 0
    if (sweeping) clock.after(SWEEP_MS, sweep)
  }

  return {
    hold(call) {
      if (call.held) return
      call.held = true
      held.add(call)
      ranges.add(call.request.ip, 1)
      call.res.onAborted(() => gone(call))
      if (!sweeping) {
        sweeping = true
        clock.after(SWEEP_MS, sweep)
      }
    },
    release,
    size: () => held.size,
    isFullFor: ranges.isFull,
    sending(call, bytes) {
      call.unreadBytes = bytes
      unread.add(call.request.ip, bytes)
    },
    isUnread: unread.isFull,
    isDraining: () => draining,
    drain() {
      draining = true
      if (held.size === 0) return Promise.resolve()
      return new Promise((resolve) => {
        drained = resolve
      })
    },
  }
}
