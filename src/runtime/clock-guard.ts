/**
 * Watches the wall clock for the whole process, from one thread: says when it has jumped, and decides when
 * a jump is believed. Until then every thread's time goes on as if it had not happened (`clock.ts`).
 *
 * A jump is believed when a chain's newest block has that time, or when the wall clock went on evenly for
 * `confirmMs`. A chain whose new blocks have the time of before contradicts: then that wait begins anew. A
 * start believes the wall clock, so a restart is how an operator confirms one at once.
 *
 * A suspended laptop: its monotonic clock stood still, so after waking up the wall clock has jumped. For
 * `confirmMs`, or until the chain has a new block, time goes on from where it was; then markets and orders
 * whose time has come meanwhile expire. Drift of up to a hundredth is followed without a word.
 *
 * Nothing here waits or reads a clock by itself: `look` is called about once a second.
 */

import {
  adjustClock,
  anchorClock,
  type ClockMemory,
  clockJumpMs,
  type Machine,
  setJumped,
} from './clock.ts'

export type ClockNews =
  | { readonly type: 'jumped'; readonly byMs: number }
  /** It shows what it should again. */
  | { readonly type: 'back' }
  | { readonly type: 'confirmed'; readonly byMs: number; readonly by: 'chain' | 'time' }

type ClockGuard = {
  look(): void
  /** The time of the chain's newest block, in milliseconds; of use while a jump is not confirmed. */
  heard(chainMs: number): void
  readonly isJumped: boolean
}

const DRIFT_MAX = 0.01

export function guardClock(
  memory: ClockMemory,
  options: {
    readonly boundMs: number
    readonly confirmMs: number
    readonly machine: Machine
    readonly say: (news: ClockNews) => void
  },
): ClockGuard {
  const { boundMs, confirmMs, machine, say } = options
  anchorClock(memory, machine, boundMs)
  let lookedMs = machine.monotonicMs()
  let jump: { sinceMs: number; byMs: number; firstChainMs: number | undefined } | undefined

  function settle(news: ClockNews): void {
    jump = undefined
    setJumped(memory, false)
    say(news)
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
      // A clock that jumps about has not gone on evenly.
      if (jump === undefined || Math.abs(byMs - jump.byMs) > boundMs) {
        jump = { sinceMs: nowMs, byMs, firstChainMs: undefined }
        setJumped(memory, true)
        say({ type: 'jumped', byMs })
      } else if (nowMs - jump.sinceMs >= confirmMs) {
        anchorClock(memory, machine, boundMs)
        settle({ type: 'confirmed', byMs, by: 'time' })
      }
    },

    heard(chainMs) {
      if (jump === undefined) return
      // A block from before the jump says nothing of it.
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
