/**
 * Tracks for one front whether a market thread is still the owner of its log. The front asks the thread every 250 ms. A
 * thread does not confirm if another node has replaced it, or if it cannot reach the log
 * (`services/market/thread/serve-partitions.ts`). A confirmation is valid for 1 s after the front requested it. So
 * while a confirmation is valid, this front lacks at most the changes of the last second. On a busy machine a
 * confirmation may take longer than 1 s. Reads are then marked as stale. The front stops being ready only after 5 s
 * without a confirmation. If the link ends, the confirmation is dropped immediately.
 */

import { isRejection } from '#domain/rejection.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import { isUnanswered } from '#runtime/channel.ts'
import type { Ref } from '#runtime/ref.ts'

export const CONFIRM_EVERY_MS = 250
const CONFIRMED_MS_MAX = 1_000
/** Maximum time since the last confirmation while the front counts as ready. */
const READY_MS_MAX = 5_000

type OwnerWatch = {
  /** Requests a confirmation from the thread, unless an earlier request is in flight. */
  ask(): Promise<void>
  /** Returns whether the thread has confirmed within the last second. */
  isConfirmed(): boolean
  /** Returns whether the thread has confirmed within the last 5 s, so that the front counts as ready. */
  isReady(): boolean
  /** Drops the confirmation. Call it when the thread was linked or its link has ended. */
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
