/**
 * Watches the wall clock for the whole process, from one thread. It reports a jump, and decides when to accept the new
 * time. Until then, every thread's time continues as if the clock had not jumped (`clock.ts`).
 *
 * A jump is accepted if the time of a new block agrees with the new time, or if the wall clock has run evenly for
 * `confirmMs`. If the time of a new block agrees with the continued old time instead, the wait of `confirmMs` starts
 * again. At its own start, the guard accepts the wall clock without a check, so an operator can confirm a jump by a
 * restart.
 *
 * Example: a laptop is suspended. Its monotonic clock stops, so after waking up the wall clock has jumped. Time
 * continues from the moment of the suspension until a new block confirms the jump, or for `confirmMs`. When the jump is
 * accepted, markets and orders whose end has passed expire. The guard follows drift of up to 1 % without a report.
 *
 * The guard has no timer: its caller passes the clocks in `machine`, and calls `look` about once a second.
 */

import {
  adjustClock,
  anchorClock,
  type ClockMemory,
  clockJumpMs,
  type Machine,
  setJumped,
} from './clock.ts'

export type ClockUpdate =
  | { readonly type: 'jumped'; readonly byMs: number }
  /** The wall clock returned to the expected time before the jump was accepted. */
  | { readonly type: 'back' }
  | { readonly type: 'confirmed'; readonly byMs: number; readonly by: 'chain' | 'time' }

type ClockGuard = {
  look(): void
  /** Receives the time of a chain's newest block in milliseconds; ignored if no jump waits for confirmation. */
  received(chainMs: number): void
  readonly isJumped: boolean
}

const DRIFT_MAX = 0.01

export function guardClock(
  memory: ClockMemory,
  options: {
    readonly boundMs: number
    readonly confirmMs: number
    readonly machine: Machine
    readonly say: (update: ClockUpdate) => void
  },
): ClockGuard {
  const { boundMs, confirmMs, machine, say } = options
  anchorClock(memory, machine, boundMs)
  let lookedMs = machine.monotonicMs()
  let jump: { sinceMs: number; byMs: number; firstChainMs: number | undefined } | undefined

  function settle(update: ClockUpdate): void {
    jump = undefined
    setJumped(memory, false)
    say(update)
  }

  return {
    get isJumped() {
      return jump !== undefined
    },

    look() {
      const nowMs = machine.monotonicMs()
      const elapsedMs = nowMs - lookedMs
      lookedMs = nowMs
      const byMs = clockJumpMs(memory, machine)
      if (Math.abs(byMs) <= boundMs) {
        if (jump !== undefined) settle({ type: 'back' })
        const most = elapsedMs * DRIFT_MAX
        adjustClock(memory, Math.max(-most, Math.min(most, byMs)))
        return
      }
      // Start the wait for the confirmation anew in two cases. Either the clock has just jumped, or the size of the
      // jump has changed. In the second case, the clock has not run evenly since the jump.
      if (jump === undefined || Math.abs(byMs - jump.byMs) > boundMs) {
        jump = { sinceMs: nowMs, byMs, firstChainMs: undefined }
        setJumped(memory, true)
        say({ type: 'jumped', byMs })
      } else if (nowMs - jump.sinceMs >= confirmMs) {
        anchorClock(memory, machine, boundMs)
        settle({ type: 'confirmed', byMs, by: 'time' })
      }
    },

    received(chainMs) {
      if (jump === undefined) return
      // The first block that is reported after the jump may be older than the jump, so only a later block counts.
      jump.firstChainMs ??= chainMs
      if (chainMs <= jump.firstChainMs) return
      const byMs = clockJumpMs(memory, machine)
      const wallMs = machine.wallMs()
      if (Math.abs(chainMs - wallMs) <= boundMs) {
        anchorClock(memory, machine, boundMs)
        settle({ type: 'confirmed', byMs, by: 'chain' })
      } else if (Math.abs(chainMs - (wallMs - byMs)) <= boundMs) {
        jump.sinceMs = machine.monotonicMs()
      }
    },
  }
}
