/**
 * Shutdown of a front's stream: asks clients to reconnect, answers their open requests, and closes every connection.
 */

import type { Clock } from '#runtime/clock.ts'
import { inTime } from '#runtime/in-time.ts'
import type { Connection } from './connection.ts'
import type { Delivery } from './delivery.ts'
import type { HeldSessions } from './held-sessions.ts'

const CLOSE_RESTART = 1012

/**
 * At shutdown, clients get `LEAVE_MS` to disconnect after the notice. Then their open requests are answered, for at
 * most `ANSWERS_MS_MAX`.
 */
const LEAVE_MS = 250
const ANSWERS_MS_MAX = 5_000

type LeavingPorts = {
  readonly clock: Clock
  readonly held?: Pick<HeldSessions, 'settled'> | undefined
  readonly settings: { readonly reconnectSpreadMs: number; readonly deadlineMs: number }
}

export function makeLeaving(
  { clock, held, settings }: LeavingPorts,
  {
    connections,
    delivery,
  }: {
    readonly connections: ReadonlySet<Connection>
    readonly delivery: Pick<Delivery, 'send' | 'end'>
  },
) {
  let closing = false
  /** If true, each connection is closed as soon as it has no open requests. */
  let dismissing = false
  const allGone = Promise.withResolvers<void>()

  function dismiss(connection: Connection): void {
    delivery.end(connection, CLOSE_RESTART, 'the exchange is restarting: connect again')
  }

  /** Closes the connection if it has no open requests and `dismissing` is true. */
  function quiet(connection: Connection): void {
    if (!dismissing || connection.inFlight > 0 || connection.frames.length > 0) return
    dismiss(connection)
  }

  /** Waits until every connection has ended, but at most `ms` milliseconds. */
  async function untilAllGone(ms: number): Promise<void> {
    if (connections.size > 0) await inTime(allGone.promise, ms)
  }

  return {
    hasBegun: () => closing,
    quiet,
    /** Called when a connection has ended. */
    left(): void {
      if (closing && connections.size === 0) allGone.resolve()
    },
    async shutdown({ atOnce = false }: { readonly atOnce?: boolean } = {}): Promise<void> {
      closing = true
      for (const connection of connections) {
        // Each client gets a different delay, so that the clients do not all reconnect at once.
        const reconnectInMs = Math.floor(Math.random() * settings.reconnectSpreadMs)
        delivery.send(connection, `{"type":"shutdown","reconnectInMs":${reconnectInMs}}`)
      }
      if (!atOnce) {
        // Wait first, so that frames that a client sent before it received the notice are answered, too.
        await untilAllGone(LEAVE_MS)
        dismissing = true
        for (const connection of connections) quiet(connection)
        await untilAllGone(ANSWERS_MS_MAX)
      }
      for (const connection of connections) dismiss(connection)
      const late = new Promise<void>((resolve) => void clock.after(settings.deadlineMs, resolve))
      await Promise.race([held?.settled(), late])
    },
  }
}
