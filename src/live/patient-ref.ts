/**
 * Reference to a thread that may move to another machine. During the move, requests wait for the next owner, at most
 * until their deadline. If the moving thread does not accept a request, the request is sent again to the next owner. If
 * the thread accepted a request but does not answer, the request is not sent again. Only its sender can decide what to
 * do.
 */

import type { Protocol } from '#runtime/actor.ts'
import type { Unanswered } from '#runtime/channel.ts'
import { inTime } from '#runtime/in-time.ts'
import type { ReplaceableRef } from '#runtime/ref.ts'

/** Messages of a moving thread to its followers. */
export type MovingProtocol = {
  /** Reports that the thread accepts no more messages, because its partitions move to another machine. */
  Moving: { takes: object; answers: undefined }
}

type PatientRef<P extends Protocol> = ReplaceableRef<P> & {
  /** Reports that the thread moves: it accepts no more messages, and a link to the next owner will follow. */
  moves(): void
}

/** The answer to a request that was not sent: the sender may retry later. */
const NOT_SENT: Unanswered = { unanswered: 'full' }

export function makePatientRef<P extends Protocol>(
  ref: ReplaceableRef<P>,
  { waitingMax, deadlineMs: usualMs }: { readonly waitingMax: number; readonly deadlineMs: number },
): PatientRef<P> {
  let moving = false
  let waiting = 0
  let linked = Promise.withResolvers<void>()

  const isThere = (): boolean => ref.isOpen && !moving

  async function untilThere(ms: number): Promise<boolean> {
    if (isThere()) return true
    if (waiting >= waitingMax || ms <= 0) return false
    waiting++
    await inTime(linked.promise, ms)
    waiting--
    return isThere()
  }

  return {
    async ask(type, message, deadlineMs = usualMs, timed) {
      const dueMs = performance.now() + deadlineMs
      for (;;) {
        if (!isThere() && !(await untilThere(dueMs - performance.now()))) return NOT_SENT
        const answer = await ref.ask(type, message, Math.max(1, dueMs - performance.now()), timed)
        const { unanswered } = (answer ?? {}) as Partial<Unanswered>
        if (unanswered !== 'moved') return answer
        moving = true
      }
    },
    tell: ref.tell,
    get isOpen() {
      return ref.isOpen
    },
    get peerSentAtMs() {
      return ref.peerSentAtMs
    },
    moves() {
      moving = true
    },
    replace(channel) {
      ref.replace(channel)
      moving = false
      linked.resolve()
      linked = Promise.withResolvers<void>()
    },
    close: ref.close,
  }
}
