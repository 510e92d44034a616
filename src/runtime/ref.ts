/**
 * A stable reference to an actor on another thread. When that thread is restarted, the reference gets a new channel.
 * Until then, callers only receive `closed` as the answer.
 */

import type { Protocol } from './actor.ts'
import type { Channel, CommandTimes, Unanswered } from './channel.ts'

export type Ref<P extends Protocol> = {
  /**
   * Sends a request to the actor. The promise always resolves. If the channel is closed, it resolves with `closed` at
   * once. If the answer contains the durations of its stages, `timed` receives them right before the promise resolves.
   */
  ask<K extends keyof P & string>(
    type: K,
    message: P[K]['takes'],
    deadlineMs?: number,
    timed?: (times: CommandTimes) => void,
  ): Promise<P[K]['answers'] | Unanswered>
  /** Sends a message that has no answer. The message is lost if the actor is not running or accepts no messages. */
  tell<K extends keyof P & string>(type: K, message: P[K]['takes'], bytes?: number): void
  readonly isOpen: boolean
  /**
   * Time at which the actor sent the last message that was received here. Right after an `await` of `ask`, that message
   * is the answer.
   */
  readonly peerSentAtMs: number
}

export type ReplaceableRef<P extends Protocol> = Ref<P> & {
  /** Replaces the reference’s channel and closes the old one. */
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
