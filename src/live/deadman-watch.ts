/**
 * Fires dead-man switches. The database stores the switches, so that they survive every restart and takeover. Once a
 * second, each front reads the switches that are due soon, and cancels the orders of those that are due. Several fronts
 * may fire the same switch, because cancelling twice changes nothing. While the database is unavailable, a front fires
 * the switches that it read before. None of them can have been renewed, because a renewal needs the database too.
 */

import type { DeadmanSwitch } from '#domain/deadman.ts'
import { DEADMAN_SWITCHES_MAX } from '#domain/limits.ts'
import { inTime } from '#runtime/in-time.ts'

/** Dead-man switches that fire within this time are read from the database in advance. */
const AHEAD_MS = 60_000
/**
 * Maximum wait for the database. Switches that are already known must not be delayed by a database that does not
 * answer.
 */
const ANSWER_MS_MAX = 2_000
/**
 * Maximum number of switches that fire at the same time. Switches fire in parallel, so that slow cancels for
 * a few traders do not delay the cancels for all other traders.
 */
const FIRING_MAX = 256
/** Maximum number of fired switches that one write clears. */
const CLEARED_TOGETHER_MAX = 256

type DeadmanPorts = {
  /** Reads the switches that are due before `beforeMs`. */
  readonly read: (asked: { beforeMs: number; limit: number }) => Promise<readonly DeadmanSwitch[]>
  /**
   * Cancels all orders of the switch's address, unless the switch's key is no longer a delegate. Resolves with true
   * if nothing is left to cancel.
   */
  readonly cancelAll: (fired: DeadmanSwitch) => Promise<boolean>
  /** Clears the fired switches in the database, except those that were renewed. */
  readonly clear: (fired: readonly DeadmanSwitch[]) => Promise<unknown>
  readonly nowMs: () => number
  readonly fired: (fired: DeadmanSwitch) => void
  readonly failed: (error: unknown) => void
}

type DeadmanWatch = {
  /**
   * Reads the due switches and fires them; called once a second. Does nothing while an earlier call is still reading.
   */
  turn(): Promise<void>
}

export function makeDeadmanWatch(ports: DeadmanPorts): DeadmanWatch {
  /** Switches as they were last read, by key. */
  let known = new Map<string, DeadmanSwitch>()
  /** Fired switches that the database still has, by key. They do not fire again. */
  const uncleared = new Map<string, DeadmanSwitch>()
  /** Due switches that are firing or waiting to fire, by key. */
  const underWay = new Map<string, DeadmanSwitch>()
  /** Due switches that wait to fire, by key. */
  const waiting = new Map<string, DeadmanSwitch>()
  let firing = 0
  let isReading = false
  let isClearing = false

  async function fire(due: DeadmanSwitch): Promise<void> {
    if (!(await ports.cancelAll(due))) return
    ports.fired(due)
    if (known.get(due.keyId) === due) known.delete(due.keyId)
    uncleared.set(due.keyId, due)
    // Firing does not wait for the database.
    void clearFired()
  }

  /** Clears fired switches in the database, one write after the other, so that other writes are not delayed. */
  async function clearFired(): Promise<void> {
    if (isClearing) return
    isClearing = true
    try {
      while (uncleared.size > 0) {
        const fired = [...uncleared.values()].slice(0, CLEARED_TOGETHER_MAX)
        await answerInTime(ports.clear(fired))
        for (const one of fired) {
          if (uncleared.get(one.keyId) === one) uncleared.delete(one.keyId)
        }
      }
    } catch (error) {
      ports.failed(error)
    }
    isClearing = false
  }

  async function fireWaiting(): Promise<void> {
    firing++
    for (const one of waiting.values()) {
      waiting.delete(one.keyId)
      await fire(one).catch(ports.failed)
      underWay.delete(one.keyId)
    }
    firing--
  }

  /**
   * Replaces `known` with the switches that are due before `beforeMs`, except those that have fired. Keeps a known
   * switch that is firing or whose cancels failed, unless it was renewed.
   */
  async function readDue(beforeMs: number): Promise<void> {
    const begun = new Map(underWay)
    // The database still has switches that have fired or are firing, because they are cleared later. Leave them out, so
    // that they do not fire again.
    const fired = new Map([...uncleared, ...begun])
    const read = await answerInTime(ports.read({ beforeMs, limit: DEADMAN_SWITCHES_MAX }))
    const unfired = read.filter(({ keyId, dueAtMs }) => fired.get(keyId)?.dueAtMs !== dueAtMs)
    const next = new Map(unfired.map((one) => [one.keyId, one]))
    for (const one of begun.values()) {
      // The cancels of this switch are unfinished or have failed. Keep it, so that failed cancels are retried.
      if (known.get(one.keyId) === one && !next.has(one.keyId)) next.set(one.keyId, one)
    }
    known = next
  }

  return {
    async turn() {
      if (isReading) return
      isReading = true
      void clearFired()
      // Fire only switches that were due before the read began. If such a switch was renewed in time, the read has
      // returned its new due time.
      const readAtMs = ports.nowMs()
      await readDue(readAtMs + AHEAD_MS).catch(ports.failed)
      for (const one of known.values()) {
        if (one.dueAtMs > readAtMs || underWay.has(one.keyId)) continue
        underWay.set(one.keyId, one)
        waiting.set(one.keyId, one)
      }
      isReading = false
      const more = Math.max(0, Math.min(FIRING_MAX - firing, waiting.size))
      await Promise.all(Array.from({ length: more }, fireWaiting))
    },
  }
}

/** Throws if the database does not answer within `ANSWER_MS_MAX`. */
async function answerInTime<T>(asked: Promise<T>): Promise<T> {
  const answer = await inTime(
    asked.then((value) => ({ value })),
    ANSWER_MS_MAX,
  )
  if (answer === undefined)
    throw new Error(`the database did not answer within ${ANSWER_MS_MAX} ms`)
  return answer.value
}
