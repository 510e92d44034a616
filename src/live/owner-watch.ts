/**
 * Tracks whether a market thread is still the owner of its log, as far as this front knows. The front asks the thread
 * every 250 ms. A thread that another node has replaced, or that cannot reach the log, does not confirm
 * (`services/market/thread.ts`). A confirmation counts from the time at which it was requested. So while the owner is
 * confirmed, the data on this front was complete at most a second ago. A busy machine may delay a confirmation for
 * longer: then reads are marked as stale, and the front stops being ready only after 5 s. If the link ends, the owner
 * is unconfirmed immediately.
 */

import { isRejection } from '#domain/rejection.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import { isUnanswered } from '#runtime/channel.ts'
import type { Ref } from '#runtime/ref.ts'

export const CONFIRM_EVERY_MS = 250
const CONFIRMED_MS_MAX = 1_000
/** Time without a confirmation until the front is not ready. */
const READY_MS_MAX = 5_000

type OwnerWatch = {
  /** Asks the thread, unless a request is in flight. */
  ask(): Promise<void>
  /** Returns whether the thread has confirmed within the last second. */
  isConfirmed(): boolean
  /** Returns whether the thread has confirmed recently enough for the front to be ready. */
  isReady(): boolean
  /** Drops the confirmation, because the thread was linked or its link has ended. */
  changed(): void
}

export function makeOwnerWatch(
  thread: Pick<Ref<MarketThreadProtocol>, 'ask' | 'isOpen'>,
  nowMs: () => number,
): OwnerWatch {
  let confirmedAtMs = Number.NEGATIVE_INFINITY
  let link = 0
  let asking: number | undefined

  return {
    async ask() {
      if (!thread.isOpen || asking === link) return
      const askedOn = link
      const askedAtMs = nowMs()
      asking = askedOn
      const answer = await thread.ask('Confirm', {}, CONFIRMED_MS_MAX)
      if (asking === askedOn) asking = undefined
      if (askedOn !== link || isUnanswered(answer) || isRejection(answer)) return
      confirmedAtMs = askedAtMs
    },
    isConfirmed: () => nowMs() - confirmedAtMs <= CONFIRMED_MS_MAX,
    isReady: () => nowMs() - confirmedAtMs <= READY_MS_MAX,
    changed() {
      link++
      confirmedAtMs = Number.NEGATIVE_INFINITY
    },
  }
}
