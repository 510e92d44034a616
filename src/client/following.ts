/**
 * One subscription at the exchange, and all its local listeners. Listeners with equal requests share one subscription,
 * which ends when the last listener closes.
 */

import type { Deferred } from './deferred.ts'
import type { ChannelMessage, Position } from './stream-messages.ts'

export type Listener = {
  readonly take: (message: ChannelMessage) => boolean
  readonly ready: Deferred<void>
  /** True once the listener has received its first snapshot; it cannot apply messages before that. */
  begun: boolean
}

export type Following = {
  readonly key: string
  readonly request: Readonly<Record<string, unknown>>
  readonly listeners: Set<Listener>
  sub: string | undefined
  /** True while a subscribe request is unanswered. */
  asking: boolean
  /** Position of the newest message; undefined before the first snapshot. */
  last: Position | undefined
  /**
   * Progress within a match whose trades arrive one by one; undefined between such matches. `before` is the position
   * before the match. After a reconnection the stream resumes at `before` and receives all trades of the match again.
   */
  fills: { readonly before: Position; readonly seq: number; fill: number } | undefined
  /** True while waiting for a snapshot that repairs a gap; other messages are ignored until that snapshot arrives. */
  repairing: boolean
  /** True while a snapshot is pending for listeners that joined after the first snapshot. */
  joining: boolean
  /** Id of the pending snapshot request, or of a refused snapshot request that will be repeated. */
  snapshotId: number | undefined
}

export function newFollowing(key: string, request: Following['request']): Following {
  return {
    key,
    request,
    listeners: new Set(),
    sub: undefined,
    asking: false,
    last: undefined,
    fills: undefined,
    repairing: false,
    joining: false,
    snapshotId: undefined,
  }
}

/**
 * Returns the key of a subscription. Two requests have the same key if they differ only in letter case or in the order
 * of markets. The exchange treats such requests as equal, too.
 */
export function keyOf(request: Following['request']): string {
  const { marketIds } = request
  const ids = Array.isArray(marketIds) ? marketIds.map((id) => String(id).toLowerCase()) : undefined
  const sorted = ids === undefined ? {} : { marketIds: [...new Set(ids)].sort() }
  return JSON.stringify({ ...request, ...sorted }).toLowerCase()
}

/** Returns whether any listener still waits for its first snapshot. */
export function hasBeginners({ listeners }: Following): boolean {
  for (const { begun } of listeners) if (!begun) return true
  return false
}

/**
 * Passes a message to the selected listeners; returns false if at least one listener could not apply the
 * message.
 */
export function tell(
  { listeners }: Following,
  message: ChannelMessage,
  isFor: (listener: Listener) => boolean,
): boolean {
  let fits = true
  for (const listener of [...listeners].filter(isFor)) {
    // Skip a listener that another listener has closed during the delivery of this message.
    if (!listeners.has(listener)) continue
    try {
      if (!listener.take(message)) fits = false
    } catch (error) {
      // An error in one listener must not prevent the delivery to the other listeners.
      queueMicrotask(() => {
        throw error
      })
    }
    listener.begun = true
    listener.ready.resolve()
  }
  return fits
}
