/**
 * One subscription at the exchange, and all functions here that listen to it. Equal subscriptions share it: the
 * subscription is requested once, and ends with its last listener.
 */

import type { Deferred } from './deferred.ts'
import type { ChannelMessage, Position } from './stream-messages.ts'

export type Listener = {
  readonly take: (message: ChannelMessage) => boolean
  readonly ready: Deferred<void>
  /** True after the first snapshot; earlier messages cannot be applied. */
  begun: boolean
}

export type Following = {
  readonly key: string
  readonly request: Readonly<Record<string, unknown>>
  readonly listeners: Set<Listener>
  sub: string | undefined
  /** True while a subscribe request is unanswered. */
  asking: boolean
  /** Last position of the channel; undefined before the first snapshot. */
  last: Position | undefined
  /** Set while the trades of one match arrive one by one: a resume then starts before the first of them. */
  fills: { readonly before: Position; readonly seq: number; fill: number } | undefined
  /** True while a snapshot is awaited; other messages are ignored until then. */
  repairing: boolean
  /** True while a snapshot for later listeners is awaited. */
  joining: boolean
  /** Id of the pending snapshot request, or of a refused one that is to be repeated. */
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

/** Returns the key by which the exchange identifies a subscription: case and the order of markets do not matter. */
export function keyOf(request: Following['request']): string {
  const { marketIds } = request
  const ids = Array.isArray(marketIds) ? marketIds.map((id) => String(id).toLowerCase()) : undefined
  const sorted = ids === undefined ? {} : { marketIds: [...new Set(ids)].sort() }
  return JSON.stringify({ ...request, ...sorted }).toLowerCase()
}

/** Returns whether a listener waits for a first snapshot. */
export function hasBeginners({ listeners }: Following): boolean {
  for (const { begun } of listeners) if (!begun) return true
  return false
}

/** Passes a message to some of the listeners; returns false if the state of one does not fit it. */
export function tell(
  { listeners }: Following,
  message: ChannelMessage,
  isFor: (listener: Listener) => boolean,
): boolean {
  let fits = true
  for (const listener of [...listeners].filter(isFor)) {
    // Skip a listener that another listener has closed while this message was passed on.
    if (!listeners.has(listener)) continue
    try {
      if (!listener.take(message)) fits = false
    } catch (error) {
      // An error in one listener must not keep the message from the others.
      queueMicrotask(() => {
        throw error
      })
    }
    listener.begun = true
    listener.ready.resolve()
  }
  return fits
}
