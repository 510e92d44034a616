/**
 * Handles frames in the order of arrival, with a bounded amount of work in each turn of the event loop. One read of a
 * socket may bring thousands of frames: those beyond the budget of the turn wait, and the connections take turns. So
 * HTTP requests and all other sockets are served in between.
 */

import { FRAMES_WAITING_BYTES_MAX } from '#domain/limits.ts'
import { beat } from '#runtime/heartbeat.ts'
import type { Connection } from './connection.ts'

/** Units of work per turn, about 4 ms. */
export const TURN_UNITS = 100

type Intake = {
  /** Handles the frame now or in a later turn; false if the queue is full. */
  take(connection: Connection, message: ArrayBuffer, isBinary: boolean): boolean
  /** Drops the waiting frames of a connection. */
  forget(connection: Connection): void
}

export function makeIntake(ports: {
  /** Handles a frame and returns the units that it took. */
  readonly handle: (connection: Connection, message: ArrayBuffer, isBinary: boolean) => number
  /** Called when no frame of the connection waits any more. */
  readonly emptied: (connection: Connection) => void
}): Intake {
  /** Connections with waiting frames, in the order of service. */
  const queue = new Set<Connection>()
  let waitingBytes = 0
  let spent = 0
  let isPlanned = false

  function handle(connection: Connection, message: ArrayBuffer, isBinary: boolean): void {
    beat()
    spent += ports.handle(connection, message, isBinary)
    plan()
  }

  /** Each turn that handled a frame is followed by another one with its own budget. */
  function plan(): void {
    if (isPlanned) return
    isPlanned = true
    setImmediate(nextTurn)
  }

  function nextTurn(): void {
    isPlanned = false
    spent = 0
    for (const connection of queue) {
      if (spent >= TURN_UNITS) break
      const frame = connection.frames.shift()
      queue.delete(connection)
      if (frame === undefined) continue
      waitingBytes -= frame.message.byteLength
      if (connection.frames.length > 0) queue.add(connection)
      handle(connection, frame.message, frame.isBinary)
      if (connection.frames.length === 0) ports.emptied(connection)
    }
    if (queue.size > 0) plan()
  }

  return {
    take(connection, message, isBinary) {
      if (spent < TURN_UNITS && connection.frames.length === 0) {
        handle(connection, message, isBinary)
        return true
      }
      if (waitingBytes + message.byteLength > FRAMES_WAITING_BYTES_MAX) return false
      // Copy: the library reuses its buffer.
      connection.frames.push({ message: message.slice(0), isBinary })
      waitingBytes += message.byteLength
      queue.add(connection)
      plan()
      return true
    },
    forget(connection) {
      for (const { message } of connection.frames) waitingBytes -= message.byteLength
      connection.frames.length = 0
      queue.delete(connection)
    },
  }
}
