/**
 * Handles connections that read too slowly. If too much data is buffered for a connection, the WebSocket library drops
 * messages but does not report all of them. So all subscriptions of that connection receive a new snapshot once the
 * socket has drained. A connection that lags too long is closed.
 */

import type { Clock } from '#runtime/clock.ts'
import type { Connection, Subscription } from './connection.ts'

export type SlowReaderSettings = {
  /** Maximum number of buffered bytes per socket; further messages are dropped. */
  readonly bufferBytesMax: number
  /** Maximum time for which a connection may lag before it is closed. */
  readonly lagMsMax: number
}

const CLOSE_LAGGING = 4008
const SUB_NAME = /"sub":"([^"]*)"/
/** Every message contains the name of its subscription within this many bytes from its start. */
const SUB_WITHIN = 200

export function makeSlowReaders({
  settings,
  clock,
  wait,
  pump,
}: {
  readonly settings: SlowReaderSettings
  readonly clock: Clock
  readonly wait: (sub: Subscription) => void
  readonly pump: (connection: Connection) => void
}) {
  const lagging = new Set<Connection>()
  let droppedCount = 0
  let closedLagging = 0

  /** Stops sending to a connection, and closes it as soon as the close reason can be sent. */
  function condemn(connection: Connection): void {
    connection.doomedAtMs ??= clock.nowMs()
    lagging.add(connection)
    dismiss(connection)
  }

  function dismiss(connection: Connection): void {
    const { ws, doomedAtMs } = connection
    if (ws === undefined || doomedAtMs === undefined) return
    if (ws.getBufferedAmount() <= settings.bufferBytesMax) {
      closedLagging++
      ws.end(CLOSE_LAGGING, 'the client reads too slowly')
    } else if (clock.nowMs() - doomedAtMs > settings.lagMsMax) {
      // The buffer has not drained within `lagMsMax`, so the connection is closed without a close reason.
      closedLagging++
      ws.close()
    }
  }

  function lagged(connection: Connection): void {
    if (connection.settling) return
    connection.settling = true
    connection.lagSinceMs ??= clock.nowMs()
    lagging.add(connection)
    for (const sub of connection.subs.values()) if (sub.live) sub.lagAt = sub.feed.topic.published
    // The WebSocket library is iterating over the socket's topics. So the subscriptions change only in the
    // next turn of the event loop.
    setImmediate(() => settle(connection))
  }

  function settle(connection: Connection): void {
    connection.settling = false
    if (connection.ws === undefined) return
    for (const sub of connection.subs.values()) {
      if (!sub.live) continue
      wait(sub)
      sub.lagged = true
      sub.paid = false
    }
    pump(connection)
  }

  return {
    condemn,
    dismiss,
    caughtUp(connection: Connection): void {
      connection.lagSinceMs = undefined
      lagging.delete(connection)
    },
    /** Records that the WebSocket library dropped this message. */
    dropped(connection: Connection, message: ArrayBuffer): void {
      droppedCount++
      const name = SUB_NAME.exec(Buffer.from(message.slice(0, SUB_WITHIN)).toString('latin1'))?.[1]
      const sub = name === undefined ? undefined : connection.subs.get(name)
      if (sub !== undefined) sub.missed++
      if (connection.ws !== undefined) lagged(connection)
    },
    /**
     * Closes connections that have lagged for longer than `lagMsMax`. Sends waiting snapshots to the other lagging
     * connections.
     */
    check(nowMs: number): void {
      for (const connection of lagging) {
        if (connection.doomedAtMs !== undefined) dismiss(connection)
        else if (nowMs - (connection.lagSinceMs ?? nowMs) > settings.lagMsMax) condemn(connection)
        else pump(connection)
      }
    },
    has: (connection: Connection) => lagging.has(connection),
    forget: (connection: Connection) => void lagging.delete(connection),
    figures: () => ({ lagging: lagging.size, dropped: droppedCount, closedLagging }),
  }
}
