/**
 * Handles the frames of each client in the order of arrival, and shares the time fairly between IP addresses. One read
 * of a socket may bring thousands of frames. If handling all of them would take too long for one turn of the event
 * loop, some frames wait for a later turn.
 */

import type { FairTurns } from '#http/fair-turns.ts'
import { beat } from '#runtime/heartbeat.ts'
import type { Connection } from './connection.ts'

type Intake = {
  /**
   * Handles the frame now or in a later turn of the event loop. Returns false if too many frames from the IP address
   * are waiting.
   */
  take(connection: Connection, message: ArrayBuffer, isBinary: boolean): boolean
  /** Drops the waiting frames of a connection. */
  forget(connection: Connection): void
}

export function makeIntake(ports: {
  readonly turns: FairTurns
  readonly handle: (connection: Connection, message: ArrayBuffer, isBinary: boolean) => void
  /** Called instead of `handle` for a waiting frame that is refused, because too many frames are waiting. */
  readonly refuse: (connection: Connection, message: ArrayBuffer) => void
  /** Called when the last waiting frame of the connection has been handled or refused. */
  readonly emptied: (connection: Connection) => void
}): Intake {
  const { turns, handle, refuse, emptied } = ports

  function next(connection: Connection, treat: typeof handle): void {
    const frame = connection.frames.shift()
    if (frame === undefined) return
    treat(connection, frame.message, frame.isBinary)
    if (connection.frames.length === 0) emptied(connection)
  }

  return {
    take(connection, message, isBinary) {
      const { ip, frames } = connection
      const beganMs = turns.begin(ip)
      if (beganMs !== undefined) {
        beat()
        handle(connection, message, isBinary)
        turns.done(ip, beganMs)
        return true
      }
      // Copy the frame, because the WebSocket library reuses its buffer.
      frames.push({ message: message.slice(0), isBinary })
      const waits = turns.wait(ip, {
        bytes: message.byteLength,
        run: () => next(connection, handle),
        refuse: () => next(connection, refuse),
      })
      if (!waits) frames.pop()
      return waits
    },
    forget(connection) {
      connection.frames.length = 0
    },
  }
}
