/**
 * Delayed refusals. If a client keeps sending although its requests are refused, it gets each further refusal only
 * after a pause. The client's connection waits during the pause, so each connection causes at most one refusal per
 * pause. Waiting requests do not count as in flight, so they use up no capacity of other clients.
 */

import type { Clock } from '#runtime/clock.ts'
import type { Call } from './call.ts'

type LateRefusals = {
  /** Sends the refusal after the pause. Returns false if too many refusals are waiting. */
  add(call: Call): boolean
  /** Sends all waiting refusals now. */
  flush(): void
  readonly size: () => number
}

/** Pause before a delayed refusal: shorter than the usual timeouts of clients and proxies. */
export const REFUSED_LATE_MS = 5_000
/** Maximum number of delayed refusals per front thread. */
const WAITING_MAX = 10_000
const SWEEP_MS = 10
/**
 * Maximum number of refusals that one sweep sends. Thousands of refusals may be due at the same time, and sending all
 * in one sweep would block the thread.
 */
const SENT_PER_SWEEP = 20

export function makeLateRefusals(options: {
  readonly clock: Clock
  /** Sends the refusal of the request; called inside `res.cork`. */
  readonly refuse: (call: Call) => void
}): LateRefusals {
  const { clock, refuse } = options
  /** Refusals in the order of their arrival. All wait equally long, so the first one is due first. */
  const waiting = new Map<Call, number>()
  let isSweeping = false

  function send(call: Call): void {
    waiting.delete(call)
    call.res.cork(() => refuse(call))
  }

  function sweep(): void {
    const nowMs = clock.nowMs()
    let sent = 0
    for (const [call, dueAtMs] of waiting) {
      if (dueAtMs > nowMs || sent >= SENT_PER_SWEEP) break
      send(call)
      sent++
    }
    isSweeping = waiting.size > 0
    if (isSweeping) clock.after(SWEEP_MS, sweep)
  }

  return {
    add(call) {
      if (waiting.size >= WAITING_MAX) return false
      call.phase = 'refused'
      waiting.set(call, clock.nowMs() + REFUSED_LATE_MS)
      call.res.onAborted(() => {
        waiting.delete(call)
        if (call.phase !== 'refused') return
        call.phase = 'over'
        call.compiled.meter.aborted += 1
      })
      if (!isSweeping) {
        isSweeping = true
        clock.after(SWEEP_MS, sweep)
      }
      return true
    },
    flush() {
      for (const call of [...waiting.keys()]) send(call)
    },
    size: () => waiting.size,
  }
}
