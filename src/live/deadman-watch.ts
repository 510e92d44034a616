/**
 * Fires dead-man switches. The database keeps them, so that they survive every restart and takeover. Each front reads
 * those that are due soon, once a second, and cancels the orders of those that are due. Several fronts may fire the same
 * switch: cancelling twice changes nothing. While the database is away, a front fires the switches that it read before;
 * none of them can have been renewed, because a renewal needs the database too.
 */

import type { DeadmanSwitch } from '#domain/deadman.ts'
import { DEADMAN_SWITCHES_MAX } from '#domain/limits.ts'
import { inTime } from '#runtime/in-time.ts'

/** Switches due within this time are read ahead. */
const AHEAD_MS = 60_000
/** A database that does not answer must not delay the switches that are known. */
const READ_MS_MAX = 2_000
/** Switches that fire at once: cancels that take long must not delay those of other traders. */
const FIRING_MAX = 256

type DeadmanPorts = {
  /** Reads the switches that are due before a time. */
  readonly read: (asked: { beforeMs: number; limit: number }) => Promise<readonly DeadmanSwitch[]>
  /**
   * Cancels all orders of the switch's address, unless the switch is of a key that is no delegate any more. Resolves with
   * true if nothing is left to cancel.
   */
  readonly cancelAll: (fired: DeadmanSwitch) => Promise<boolean>
  /** Clears the switch if it was not renewed. */
  readonly clear: (fired: DeadmanSwitch) => Promise<unknown>
  readonly nowMs: () => number
  readonly fired: (fired: DeadmanSwitch) => void
  readonly failed: (error: unknown) => void
}

type DeadmanWatch = {
  /** Reads and fires; called once a second. Returns at once if the last call is still running. */
  turn(): Promise<void>
}

export function makeDeadmanWatch(ports: DeadmanPorts): DeadmanWatch {
  /** By key, as they were last read. */
  let known = new Map<string, DeadmanSwitch>()
  let isBusy = false

  async function fire(due: DeadmanSwitch): Promise<void> {
    if (!(await ports.cancelAll(due))) return
    ports.fired(due)
    known.delete(due.keyId)
    await inTime(ports.clear(due), READ_MS_MAX)
  }

  return {
    async turn() {
      if (isBusy) return
      isBusy = true
      // A switch that was renewed in time has its new time in every read that began after it was due.
      const readAtMs = ports.nowMs()
      try {
        const beforeMs = readAtMs + AHEAD_MS
        const read = await inTime(
          ports.read({ beforeMs, limit: DEADMAN_SWITCHES_MAX }),
          READ_MS_MAX,
        )
        if (read === undefined)
          throw new Error(`the database did not answer within ${READ_MS_MAX} ms`)
        known = new Map(read.map((one) => [one.keyId, one]))
      } catch (error) {
        ports.failed(error)
      }
      const due = [...known.values()].filter(({ dueAtMs }) => dueAtMs <= readAtMs).values()
      const fireSome = async () => {
        for (const one of due) await fire(one).catch(ports.failed)
      }
      await Promise.all(Array.from({ length: FIRING_MAX }, fireSome))
      isBusy = false
    },
  }
}
