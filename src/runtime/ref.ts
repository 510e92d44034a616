/**
 * A stable reference to an actor on another thread. When the thread is restarted, the channel behind it is replaced;
 * callers only see `closed` answers in between.
 */

import type { Protocol } from './actor.ts'
import type { Channel, CommandTimes, Unanswered } from './channel.ts'

export type Ref<P extends Protocol> = {
  /**
   * Sends a request; always resolves. While the actor is away, the answer is immediately `closed`. `timed` receives the
   * stage times right before the answer, if the actor knows them.
   */
  ask<K extends keyof P & string>(
    type: K,
    message: P[K]['takes'],
    deadlineMs?: number,
    timed?: (times: CommandTimes) => void,
  ): Promise<P[K]['answers'] | Unanswered>
  /** Sends a message without an answer; it is lost while the actor is away, or takes no messages. */
  tell<K extends keyof P & string>(type: K, message: P[K]['takes'], bytes?: number): void
  readonly isOpen: boolean
  /**
   * Time at which the actor sent the last message that was received here. Right after an `await` of `ask`, that message
   * is the answer.
   */
  readonly peerSentAtMs: number
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
    get peerSentAtMs() {
      return channel?.peerSentAtMs ?? 0
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
