/**
 * Time controlled by a test. Due timers run in the order of their times. Timers with the same time run in the order of
 * their creation.
 */

import type { Clock } from '#runtime/clock.ts'

export type SimulatedClock = Clock & {
  /** Moves the time forward and runs everything that becomes due on the way. */
  advance(ms: number): void
  /** How many timers wait. */
  readonly pending: number
}

export function simulatedClock(startMs: number): SimulatedClock {
  let now = startMs
  let order = 0
  const timers = new Map<number, { dueMs: number; action: () => void }>()

  function nextDue(untilMs: number): number | undefined {
    let best: number | undefined
    let bestDue = Number.POSITIVE_INFINITY
    for (const [id, timer] of timers) {
      if (timer.dueMs <= untilMs && timer.dueMs < bestDue) {
        best = id
        bestDue = timer.dueMs
      }
    }
    return best
  }

  return {
    nowMs: () => now,
    after(delayMs, action) {
      const id = order++
      timers.set(id, { dueMs: now + Math.max(0, delayMs), action })
      return () => void timers.delete(id)
    },
    advance(ms) {
      const untilMs = now + ms
      for (let id = nextDue(untilMs); id !== undefined; id = nextDue(untilMs)) {
        const timer = timers.get(id)
        timers.delete(id)
        if (timer === undefined) continue
        now = Math.max(now, timer.dueMs)
        timer.action()
      }
      now = untilMs
    },
    get pending() {
      return timers.size
    },
  }
}
