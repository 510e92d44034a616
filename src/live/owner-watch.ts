/**
 * Tracks whether a market thread is the owner of its log, as far as a front knows. The front asks every 250 ms; a
 * thread that another node has replaced, or that cannot reach the log, does not confirm (`services/market/thread.ts`).
 * The time counts from when the request was sent. So while the owner is confirmed, the data here was complete at most a
 * second ago.
 */

import { isRejection } from '#domain/rejection.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import { isUnanswered } from '#runtime/channel.ts'
import type { Ref } from '#runtime/ref.ts'

export const CONFIRM_EVERY_MS = 250
const CONFIRMED_MS_MAX = 1_000

type OwnerWatch = {
  /** Asks the thread, unless a request is in flight. */
  ask(): Promise<void>
  /** Returns whether the thread has confirmed within the last second. */
  isConfirmed(): boolean
  /** Resets the confirmation: the thread was linked, or its link has ended. */
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
    changed() {
      link++
      confirmedAtMs = Number.NEGATIVE_INFINITY
    },
  }
}
