/**
 * What the exchange knows as one subscription, and all who listen to it here. Who subscribes to the
 * same thing a second time listens to the same subscription: it is asked for once, and ends with the
 * last of them.
 */

import type { Deferred } from './deferred.ts'
import type { ChannelMessage, Position } from './stream-messages.ts'

export type Listener = {
  readonly take: (message: ChannelMessage) => boolean
  readonly ready: Deferred<void>
  /** Whether it has had a snapshot; before that, nothing else makes sense to it. */
  begun: boolean
}

export type Following = {
  readonly key: string
  readonly request: Readonly<Record<string, unknown>>
  readonly listeners: Set<Listener>
  sub: string | undefined
  /** A subscribe is not answered yet. */
  asking: boolean
  /** Where it is; undefined before the first snapshot. */
  last: Position | undefined
  /** The trades of one match come one by one; until the last, a resume begins before the first. */
  fills: { readonly before: Position; readonly seq: number; fill: number } | undefined
  /** A snapshot is on its way; until then nothing else counts. */
  repairing: boolean
  /** A snapshot is on its way for those who came later. */
  joining: boolean
  /** The request for a snapshot that is on its way, or is to be repeated. */
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

/** What the exchange takes for one subscription: letters in any case and markets in any order are the same. */
export function keyOf(request: Following['request']): string {
  const { marketIds } = request
  const ids = Array.isArray(marketIds) ? marketIds.map((id) => String(id).toLowerCase()) : undefined
  const sorted = ids === undefined ? {} : { marketIds: [...new Set(ids)].sort() }
  return JSON.stringify({ ...request, ...sorted }).toLowerCase()
}

/** Whether somebody waits for a first snapshot. */
export function hasBeginners({ listeners }: Following): boolean {
  for (const { begun } of listeners) if (!begun) return true
  return false
}

/** Tells some of the listeners; false when what one of them holds does not fit the message. */
export function tell(
  { listeners }: Following,
  message: ChannelMessage,
  isFor: (listener: Listener) => boolean,
): boolean {
  let fits = true
  for (const listener of [...listeners].filter(isFor)) {
    // One that another has closed on this very message hears no more.
    if (!listeners.has(listener)) continue
    try {
      if (!listener.take(message)) fits = false
    } catch (error) {
      // The fault of one listener is not to be the silence of the others.
      queueMicrotask(() => {
        throw error
      })
    }
    listener.begun = true
    listener.ready.resolve()
  }
  return fits
}
