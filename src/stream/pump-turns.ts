/**
 * Sends waiting snapshots, IP address by IP address, because the figures for many snapshots may arrive at the same
 * time.
 */

import type { FairTurns } from '#http/fair-turns.ts'
import type { Connection } from './connection.ts'

/** Pause of a connection whose snapshots were refused a turn. */
const PAUSE_MS = 200

const afterPause = (then: () => void): void => void setTimeout(then, PAUSE_MS).unref()

export function makePumpTurns(ports: {
  readonly turns: FairTurns
  readonly pump: (connection: Connection) => void
  /** Calls after a pause. */
  readonly later?: (then: () => void) => void
}): (connection: Connection) => void {
  const { turns, pump, later = afterPause } = ports
  /** Each connection waits once, however many of its snapshots can be sent. */
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
    // Too much work waits. The snapshots must not be lost, sending them now would stop the event loop, and a retry in
    // each turn would keep it busy. So the retry is later.
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
