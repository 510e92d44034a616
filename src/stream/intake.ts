/**
 * Frames in the order in which they came, a bounded amount of work in each turn of the event loop. A read of one
 * socket may bring thousands of frames: those beyond the budget of the turn wait, and the connections take turns.
 * So requests over HTTP and all other sockets are served in between.
 */

import { FRAMES_WAITING_BYTES_MAX } from '#domain/limits.ts'
import { beat } from '#runtime/heartbeat.ts'
import type { Connection } from './connection.ts'

/** Units of work of one turn, about 4 ms of it. */
export const TURN_UNITS = 100

type Intake = {
  /** Handles the frame now or in one of the next turns; false when too much waits already. */
  take(connection: Connection, message: ArrayBuffer, isBinary: boolean): boolean
  /** Drops what waits of a connection. */
  forget(connection: Connection): void
}

export function makeIntake(ports: {
  /** Handles a frame and returns the units that it took. */
  readonly handle: (connection: Connection, message: ArrayBuffer, isBinary: boolean) => number
  /** Nothing of the connection waits any more. */
  readonly emptied: (connection: Connection) => void
}): Intake {
  /** The connections that have frames waiting, in the order in which they are served. */
  const queue = new Set<Connection>()
  let waitingBytes = 0
  let spent = 0
  let isPlanned = false

  function handle(connection: Connection, message: ArrayBuffer, isBinary: boolean): void {
    beat()
    spent += ports.handle(connection, message, isBinary)
    plan()
  }

  /** After each turn in which something was handled another one begins, with a budget of its own. */
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
      // The library uses its buffer again.
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
