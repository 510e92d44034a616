/**
 * Subscriptions of a stream. They are requested on each new connection, and resume at their last position. Every
 * message must follow the previous one; a gap is repaired by a new snapshot.
 */

import { makeDeferred } from './deferred.ts'
import {
  type Following,
  hasBeginners,
  keyOf,
  type Listener,
  newFollowing,
  tell,
} from './following.ts'
import { isPassing, SibylError } from './sibyl-error.ts'
import { type ChannelMessage, type Position, positionOf, previousOf } from './stream-messages.ts'
import type { StreamEvents, StreamSubscription } from './stream-types.ts'

export type Subscriptions = {
  start(
    request: Following['request'],
    take: (message: ChannelMessage) => boolean,
  ): StreamSubscription
  /** Requests all subscriptions that have listeners, on a connection that has become ready. */
  resume(): void
  /** Handles the loss of the connection: subscriptions wait for the next connection. */
  lost(): void
  /** Handles the answer to a subscribe request. */
  subscribed(answer: { id?: number; sub: string; seq: Position }): void
  /** Handles a refused request; returns false if the request is not from a subscription. */
  refused(id: number, failure: SibylError): boolean
  /** Handles a `lag` message: the exchange has dropped messages of this subscription, and sends a snapshot. */
  lagged(sub: string): void
  /** Compares local positions with the positions in a heartbeat, to detect that the newest message was lost. */
  compare(subs: Readonly<Record<string, Position>>): void
  follow(message: ChannelMessage): void
  /** Closes all subscriptions; a subscription that starts later is closed at once. */
  close(): void
}

export function makeSubscriptions(ports: {
  readonly say: (frame: object) => void
  readonly nextId: () => number
  /** Returns whether the connection is ready for requests. */
  readonly mayAsk: () => boolean
  readonly emit: <K extends keyof StreamEvents>(name: K, event: StreamEvents[K]) => void
  /** Pause before a temporarily refused request is repeated. */
  readonly pauseMs: number
}): Subscriptions {
  const { say, nextId, mayAsk, emit, pauseMs } = ports
  const followings = new Map<string, Following>()
  const asked = new Map<number, Following>()
  let isOver = false

  function subscribe(following: Following): void {
    const id = nextId()
    asked.set(id, following)
    following.asking = true
    // The new subscription continues at the last correct position. This also repairs a gap, so a pending snapshot is no
    // longer needed.
    following.repairing = false
    following.snapshotId = undefined
    const since = following.fills?.before ?? following.last
    say({ op: 'subscribe', ...following.request, id, ...(since === undefined ? {} : { since }) })
  }

  function named(sub: string): Following | undefined {
    for (const following of followings.values()) if (following.sub === sub) return following
    return undefined
  }

  /**
   * Returns whether a subscription must be requested: it has listeners, is not active, and has no pending
   * request.
   */
  function isWanted(following: Following): boolean {
    const { key, listeners, sub, asking } = following
    return followings.get(key) === following && listeners.size > 0 && sub === undefined && !asking
  }

  function end({ key, sub }: Following): void {
    followings.delete(key)
    if (sub !== undefined) say({ op: 'unsubscribe', sub })
  }

  /** Requests a snapshot for a new listener; existing listeners do not wait for the snapshot. */
  function join(following: Following): void {
    following.joining = true
    askSnapshot(following)
  }

  function repair(following: Following): void {
    following.repairing = true
    askSnapshot(following)
  }

  /** Requests a snapshot, unless a request is already pending: one snapshot serves every listener. */
  function askSnapshot(following: Following): void {
    if (following.snapshotId !== undefined) return
    following.snapshotId = nextId()
    say({ op: 'snapshot', sub: following.sub, id: following.snapshotId })
  }

  function snapshotRefused(following: Following, id: number, failure: SibylError): void {
    setTimeout(() => {
      // Ignore the refusal if it is out of date: a snapshot has arrived, the connection is new, or the subscription has
      // ended.
      if (followings.get(following.key) !== following || following.snapshotId !== id) return
      following.snapshotId = undefined
      if (isPassing(failure)) askSnapshot(following)
      else {
        // The exchange no longer knows this subscription, so the client requests it again from the last correct
        // position.
        following.sub = undefined
        following.joining = false
        subscribe(following)
      }
    }, pauseMs)
  }

  /**
   * Applies a snapshot. If it was requested for new listeners and the existing listeners have the same position, only
   * the new listeners receive it. Otherwise all listeners start over from the snapshot.
   */
  function begin(following: Following, message: ChannelMessage): void {
    const { sub } = message
    const { last, repairing, joining, fills } = following
    const position = positionOf(message)
    following.joining = false
    following.snapshotId = undefined
    if (joining && !repairing && !('reset' in message)) {
      if (position === last && fills === undefined) {
        deliver(following, message, (listener) => !listener.begun)
        return
      }
      if (last !== undefined) emit('gap', { sub, had: last, got: position })
    }
    following.repairing = false
    following.fills = undefined
    following.last = position
    if ('reset' in message) emit('reset', { sub })
    deliver(following, message, () => true)
  }

  function deliver(
    following: Following,
    message: ChannelMessage,
    isFor: (listener: Listener) => boolean,
  ): void {
    if (tell(following, message, isFor)) return
    // A listener could not apply this message, so its local state is wrong. Do not resume from this position.
    following.last = undefined
    following.fills = undefined
    repair(following)
  }

  return {
    start(request, take) {
      const key = keyOf(request)
      const listener: Listener = { take, ready: makeDeferred<void>(), begun: false }
      // The promise may reject before a caller awaits it; without this handler, that would be an unhandled rejection.
      listener.ready.promise.catch(() => undefined)
      if (isOver) {
        callOff(listener, 'the stream is closed')
        return { ready: listener.ready.promise, close: () => undefined }
      }
      const following = followings.get(key) ?? newFollowing(key, request)
      followings.set(key, following)
      following.listeners.add(listener)
      const { sub, last, repairing } = following
      if (sub !== undefined) {
        // If the first snapshot or a repairing snapshot is pending, it goes to all listeners. So this listener needs no
        // snapshot request of its own.
        if (last !== undefined && !repairing) join(following)
      } else if (mayAsk() && isWanted(following)) subscribe(following)
      return {
        ready: listener.ready.promise,
        close() {
          callOff(listener, 'the subscription is closed')
          if (!following.listeners.delete(listener) || following.listeners.size > 0) return
          // Do not end a subscription whose subscribe request is pending, because a new listener may arrive before the
          // answer.
          if (!following.asking && followings.get(key) === following) end(following)
        },
      }
    },

    resume() {
      for (const following of followings.values()) if (isWanted(following)) subscribe(following)
    },

    lost() {
      asked.clear()
      for (const following of followings.values()) {
        following.sub = undefined
        following.asking = false
        following.joining = false
        following.snapshotId = undefined
        if (following.listeners.size === 0) followings.delete(following.key)
      }
    },

    subscribed({ id, sub, seq }) {
      const following = id === undefined ? undefined : asked.get(id)
      if (id === undefined || following === undefined) return
      asked.delete(id)
      following.asking = false
      following.sub = sub
      if (following.listeners.size === 0) {
        end(following)
        return
      }
      const resumed = following.last !== undefined
      // The exchange resumes this subscription at `seq`, so the next message must follow `seq`.
      if (resumed && !following.repairing) following.last = seq
      // Replayed messages suffice for existing listeners, but new listeners need a snapshot.
      if (resumed && hasBeginners(following)) join(following)
      emit('subscribed', { sub, resumed })
    },

    refused(id, failure) {
      for (const following of followings.values()) {
        if (following.snapshotId !== id) continue
        snapshotRefused(following, id, failure)
        return true
      }
      const following = asked.get(id)
      if (following === undefined) return false
      asked.delete(id)
      following.asking = false
      if (!isPassing(failure)) {
        followings.delete(following.key)
        for (const { ready } of following.listeners) ready.reject(failure)
        return true
      }
      setTimeout(() => {
        // If the connection is not ready now, `resume` requests the subscription later.
        if (mayAsk() && isWanted(following)) subscribe(following)
      }, pauseMs)
      return true
    },

    lagged(sub) {
      const following = named(sub)
      if (following !== undefined) following.repairing = true
    },

    compare(subs) {
      for (const following of followings.values()) {
        const { sub, last, repairing } = following
        const position = sub === undefined ? undefined : subs[sub]
        if (sub === undefined || position === undefined || last === undefined || repairing) continue
        if (position === last && following.fills === undefined) continue
        emit('gap', { sub, had: last, got: position })
        repair(following)
      }
    },

    follow(message) {
      const { sub } = message
      const following = named(sub)
      if (following === undefined) return
      const previous = previousOf(message)
      if (previous === undefined) {
        begin(following, message)
        return
      }
      if (following.repairing) return
      const { last, fills: partial } = following
      const position = positionOf(message)
      const fill = message.type === 'trade' ? message.fill : 0
      if (message.type === 'trade' && partial?.seq === message.seq && fill <= partial.fill) {
        // Skip this fill, because it was received before. The connection was lost when only some fills of this match
        // had arrived. After the resume, the exchange sends all fills of the match again.
        following.last = position
        return
      }
      const follows =
        message.type === 'trade' && partial?.seq === message.seq
          ? fill === partial.fill + 1
          : previous === last && partial === undefined && fill <= 1
      if (!follows) {
        emit('gap', { sub, had: last ?? 0, got: previous })
        repair(following)
        return
      }
      if (message.type === 'trade') {
        const { seq, fills } = message
        const before = partial?.before ?? previous
        following.fills = fill < fills ? { before, seq, fill } : undefined
      }
      following.last = position
      deliver(following, message, (listener) => listener.begun)
    },

    close() {
      isOver = true
      for (const { listeners } of followings.values()) {
        for (const listener of listeners) callOff(listener, 'the stream is closed')
      }
      followings.clear()
    },
  }
}

/** Rejects the `ready` promise of a listener that still waits for the first snapshot. */
function callOff({ ready }: Listener, why: string): void {
  ready.reject(new SibylError('ABORTED', why))
}
