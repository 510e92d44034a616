/**
 * Connections that read too slowly. If the library drops a message because too much is buffered, it does not report
 * which others it dropped. So all subscriptions of that connection wait again, and get a snapshot once the socket has
 * drained. A connection that lags too long is closed.
 */

import type { Clock } from '#runtime/clock.ts'
import type { Connection, Subscription } from './connection.ts'

export type SlowReaderSettings = {
  /** Maximum number of buffered bytes per socket; further messages are dropped. */
  readonly bufferBytesMax: number
  /** A reader that lags longer is closed. */
  readonly lagMsMax: number
}

const CLOSE_LAGGING = 4008
const SUB_NAME = /"sub":"([^"]*)"/
/** The name of the subscription is within this number of bytes from the start of a message. */
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

  /** Sends nothing more to a connection, and closes it as soon as the reason can be sent. */
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
      ws.end(CLOSE_LAGGING, 'too slow')
    } else if (clock.nowMs() - doomedAtMs > settings.lagMsMax) {
      // The reason cannot be sent to this client, so the close is only counted.
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
    // The library is iterating over its topics, which must not be changed before the next turn.
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
    /** Notes that the library dropped this message. */
    dropped(connection: Connection, message: ArrayBuffer): void {
      droppedCount++
      const name = SUB_NAME.exec(Buffer.from(message.slice(0, SUB_WITHIN)).toString('latin1'))?.[1]
      const sub = name === undefined ? undefined : connection.subs.get(name)
      if (sub !== undefined) sub.missed++
      if (connection.ws !== undefined) lagged(connection)
    },
    /** Closes connections that have lagged for too long. */
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
