/**
 * A stable reference to an actor on another thread. The channel behind it is replaced when the
 * thread is restarted; the holder of the reference does not notice more than `closed` answers in
 * between.
 */

import type { Protocol } from './actor.ts'
import type { Channel, CommandTimes, Unanswered } from './channel.ts'

export type Ref<P extends Protocol> = {
  /**
   * Asks and waits; resolves always. While the actor is away the answer is `closed`, at once. `timed`
   * is told, right before the answer, where its time went, if the actor knows.
   */
  ask<K extends keyof P & string>(
    type: K,
    message: P[K]['takes'],
    deadlineMs?: number,
    timed?: (times: CommandTimes) => void,
  ): Promise<P[K]['answers'] | Unanswered>
  /** Says something that needs no answer; it is lost while the actor is away, or takes nothing. */
  tell<K extends keyof P & string>(type: K, message: P[K]['takes'], bytes?: number): void
  readonly isOpen: boolean
  /** When the actor sent what was heard of it last; right after an `await`, that answer. */
  readonly heardSentAtMs: number
}

export type ReplaceableRef<P extends Protocol> = Ref<P> & {
  /** Puts a new channel behind the reference and closes the old one. */
  replace(channel: Channel<P>): void
  close(): void
}

export function makeRef<P extends Protocol>(): ReplaceableRef<P> {
  let channel: Channel<P> | undefined
  return {
    ask(type, message, deadlineMs, timed) {
      if (channel === undefined) return Promise.resolve({ unanswered: 'closed' })
      return channel.ask(type, message, deadlineMs, timed)
    },
    tell(type, message, bytes) {
      channel?.tell(type, message, bytes)
    },
    get isOpen() {
      return channel?.isOpen ?? false
    },
    get heardSentAtMs() {
      return channel?.heardSentAtMs ?? 0
    },
    replace(next) {
      channel?.close()
      channel = next
    },
    close() {
      channel?.close()
      channel = undefined
    },
  }
}
