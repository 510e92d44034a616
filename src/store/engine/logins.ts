/**
 * Logins to a MySQL server. After a refused login, the next login is delayed; each further refusal doubles the delay.
 * Without the delay, a server may lock the account, and the server's log fills up. During the delay, calls fail
 * immediately with the same refusal, unless an open connection is free.
 */

import { Socket } from 'node:net'
import { backoff } from '#domain/backoff.ts'

export type Logins = {
  /** Dials the server. During the pause after a refusal, returns a socket that immediately fails with that refusal. */
  dial(connect: () => Socket): Socket
  accepted(): void
  refused(error: object): void
}

const PAUSE_MS = 1_000
const PAUSE_MS_MAX = 30_000

export function makeLogins(nowMs: () => number = () => performance.now()): Logins {
  let refusals = 0
  let pausedUntilMs = Number.NEGATIVE_INFINITY
  let refusal: object = {}
  /**
   * True if the server was dialled since the last refusal. Several calls may report the same refusal; only the first
   * report lengthens the pause.
   */
  let isDialled = false

  return {
    dial(connect) {
      // Pass a copy of the refusal, because the driver changes the error that it receives.
      if (nowMs() < pausedUntilMs) return new Socket().destroy(Object.assign(new Error(), refusal))
      isDialled = true
      return connect()
    },
    accepted() {
      refusals = 0
      pausedUntilMs = Number.NEGATIVE_INFINITY
    },
    refused(error) {
      if (!isDialled) return
      isDialled = false
      refusal = error
      pausedUntilMs = nowMs() + backoff(PAUSE_MS, PAUSE_MS_MAX, refusals++)
    },
  }
}
