/**
 * Requests in flight: requests that were not answered within the library callback that delivered them. Each has an
 * abort handler and a deadline until it ends.
 */

import type { Clock } from '#runtime/clock.ts'
import type { Call } from './call.ts'

type HeldCalls = {
  /** Attaches the abort handler and the deadline of a request that cannot be answered immediately. */
  readonly hold: (call: Call) => void
  /** Removes a request that has ended. */
  readonly release: (call: Call) => void
  readonly size: () => number
  readonly isDraining: () => boolean
  /** Closes each connection after its next answer. Resolves when no request is in flight. */
  readonly drain: () => Promise<void>
}

/** Interval of the deadline check, and so the precision of deadlines. */
const SWEEP_MS = 50

export function makeHeldCalls(options: {
  readonly clock: Clock
  /** Called at each check for every request that is past its deadline, until the request ends. */
  readonly overdue: (call: Call) => void
}): HeldCalls {
  const { clock, overdue } = options
  const held = new Set<Call>()
  let draining = false
  let sweeping = false
  let drained: (() => void) | undefined

  function release(call: Call): void {
    held.delete(call)
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
      call.res.onAborted(() => gone(call))
      if (!sweeping) {
        sweeping = true
        clock.after(SWEEP_MS, sweep)
      }
    },
    release,
    size: () => held.size,
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
