/**
 * The subscriptions of a stream: they are asked for on each new connection, go on where they were, and each is kept in
 * step by the position that every message names. What does not follow is a gap, and is repaired by a new snapshot.
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
  /** Asks for all that is wanted, on a connection that is ready for it. */
  resume(): void
  /** The connection is gone; the subscriptions wait for the next. */
  lost(): void
  /** A subscribe was answered. */
  subscribed(answer: { id?: number; sub: string; seq: Position }): void
  /** A request was refused; false when it was none of these. */
  refused(id: number, failure: SibylError): boolean
  /** The exchange dropped messages of this one, and sends a snapshot. */
  lagged(sub: string): void
  /** A heartbeat tells where each subscription stands: what is missing at the end shows too. */
  compare(subs: Readonly<Record<string, Position>>): void
  follow(message: ChannelMessage): void
  /** Ends all of them; what is started later is closed from the beginning. */
  close(): void
}

export function makeSubscriptions(ports: {
  readonly say: (frame: object) => void
  readonly nextId: () => number
  /** Whether the connection is ready to be asked. */
  readonly mayAsk: () => boolean
  readonly emit: <K extends keyof StreamEvents>(name: K, event: StreamEvents[K]) => void
  /** How long to wait before what was refused for now is asked for again. */
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
    // Whatever was to be repaired, what follows the last good position repairs it.
    following.repairing = false
    following.snapshotId = undefined
    const since = following.fills?.before ?? following.last
    say({ op: 'subscribe', ...following.request, id, ...(since === undefined ? {} : { since }) })
  }

  function named(sub: string): Following | undefined {
    for (const following of followings.values()) if (following.sub === sub) return following
    return undefined
  }

  /** Whether it is to be asked for: someone listens, and nothing has been asked since. */
  function isWanted(following: Following): boolean {
    const { key, listeners, sub, asking } = following
    return followings.get(key) === following && listeners.size > 0 && sub === undefined && !asking
  }

  function end({ key, sub }: Following): void {
    followings.delete(key)
    if (sub !== undefined) say({ op: 'unsubscribe', sub })
  }

  /** Somebody came later and has to begin; the others go on. */
  function join(following: Following): void {
    following.joining = true
    askSnapshot(following)
  }

  function repair(following: Following): void {
    following.repairing = true
    askSnapshot(following)
  }

  /** Asks for a snapshot, unless one is on its way: that serves whoever needs one. */
  function askSnapshot(following: Following): void {
    if (following.snapshotId !== undefined) return
    following.snapshotId = nextId()
    say({ op: 'snapshot', sub: following.sub, id: following.snapshotId })
  }

  function snapshotRefused(following: Following, id: number, failure: SibylError): void {
    setTimeout(() => {
      // A snapshot that came by itself, a new connection, or the end: then there is nothing to ask for.
      if (followings.get(following.key) !== following || following.snapshotId !== id) return
      following.snapshotId = undefined
      if (isPassing(failure)) askSnapshot(following)
      else {
        // The exchange does not know the subscription as we do; a new one goes on from the last good position.
        following.sub = undefined
        following.joining = false
        subscribe(following)
      }
    }, pauseMs)
  }

  /** Takes a snapshot: a new start, for those who need one. */
  function begin(following: Following, message: ChannelMessage): void {
    const { sub } = message
    const { last, repairing, joining, fills } = following
    const position = positionOf(message)
    following.joining = false
    following.snapshotId = undefined
    if (joining && !repairing && !('reset' in message)) {
      if (position === last && fills === undefined) {
        // Those who were there before have all of it already.
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
    // What it holds is wrong, so there is no position to go on from.
    following.last = undefined
    following.fills = undefined
    repair(following)
  }

  return {
    start(request, take) {
      const key = keyOf(request)
      const listener: Listener = { take, ready: makeDeferred<void>(), begun: false }
      // There may be nobody who waits for it.
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
        // The first snapshot, or that of a repair, is on its way and serves this listener too.
        if (last !== undefined && !repairing) join(following)
      } else if (mayAsk() && isWanted(following)) subscribe(following)
      return {
        ready: listener.ready.promise,
        close() {
          callOff(listener, 'the subscription is closed')
          if (!following.listeners.delete(listener) || following.listeners.size > 0) return
          // While a subscribe is under way its answer is waited for, and somebody may come until then.
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
      // Where the exchange's chain stands for us; what it replays begins there.
      if (resumed && !following.repairing) following.last = seq
      // What is replayed is enough for those who were there before, not for who came meanwhile.
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
        // A connection that is not ready yet asks for all that is wanted once it is.
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
        // Replayed because the match was not complete.
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

/** Who still waits for the first snapshot hears that there will be none. */
function callOff({ ready }: Listener, why: string): void {
  ready.reject(new SibylError('ABORTED', why))
}
