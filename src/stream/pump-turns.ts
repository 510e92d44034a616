/**
 * Sends waiting snapshots, and shares the time fairly between IP addresses. The data for many snapshots may arrive at
 * the same time, so sending all snapshots at once could block the event loop.
 */

import type { FairTurns } from '#http/fair-turns.ts'
import type { Connection } from './connection.ts'

/** Delay before a connection retries to send its snapshots, if the queue of waiting work is full. */
const PAUSE_MS = 200

const afterPause = (then: () => void): void => void setTimeout(then, PAUSE_MS).unref()

export function makePumpTurns(ports: {
  readonly turns: FairTurns
  readonly pump: (connection: Connection) => void
  /** Calls the function after a pause. */
  readonly later?: (then: () => void) => void
}): (connection: Connection) => void {
  const { turns, pump, later = afterPause } = ports
  /**
   * Connections with snapshots to send. A connection is queued only once, even if several of its snapshots can be sent.
   */
  const waiting = new Set<Connection>()

  function wait(connection: Connection): void {
    if (connection.ws === undefined) {
      waiting.delete(connection)
      return
    }
    const run = (): void => {
      waiting.delete(connection)
      pump(connection)
    }
    // The queue of waiting work is full. Do not drop the snapshots, because clients wait for them. Do not send them
    // now, because this would block the event loop. Retry after a pause, because a retry in each turn would keep the
    // event loop busy.
    const retry = (): void => later(() => wait(connection))
    if (!turns.wait(connection.ip, { bytes: 0, run, refuse: retry })) retry()
  }

  return (connection) => {
    if (waiting.has(connection)) return
    const { ip } = connection
    const beganMs = turns.begin(ip)
    if (beganMs === undefined) {
      waiting.add(connection)
      wait(connection)
      return
    }
    pump(connection)
    turns.done(ip, beganMs)
  }
}
