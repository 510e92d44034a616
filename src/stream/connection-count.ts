/**
 * Counts streams and subscriptions of each IP range over all front threads. Each front stores its own counts in shared
 * memory, together with its incarnation (a number that each restart raises). A front that dies leaves its counts
 * behind. Counts of an earlier incarnation are ignored, so a restarted front starts at zero.
 *
 * Two fronts that admit a client at the same instant may both see the last free place. So a range can exceed its limit
 * by at most the number of fronts minus one.
 */

import { makeSharedTable, SharedTable, type SharedTableMemory } from '#http/shared-table.ts'

export type ConnectionCountMemory = {
  readonly table: SharedTableMemory
  /** Incarnation number of each front. */
  readonly lives: SharedArrayBuffer
}

export type ConnectionCount = {
  /**
   * Returns the number of streams (or of subscriptions, in their own count) that clients of this range of IP addresses
   * have on all fronts.
   */
  of(range: string): number
  /** Adds `by`, which may be negative, to the number of the range on this front. */
  add(range: string, by: number): void
}

/**
 * Maximum number of counts in the shared table. Each front has one count of streams and one of subscriptions
 * per IP range. Above the maximum, the smallest counts are left out.
 */
const RANGES_MAX = 100_000

/** The table cannot store 0, so the count plus one is stored. */
const KEPT_AT_ZERO = 1

export function makeConnectionCountMemory(fronts: number, secret: string): ConnectionCountMemory {
  // A single front does not use the table, so the table has only one record.
  const records = fronts > 1 ? RANGES_MAX : 1
  return { table: makeSharedTable(records, secret), lives: new SharedArrayBuffer(4 * fronts) }
}

export function makeConnectionCount(memory: ConnectionCountMemory, front: number): ConnectionCount {
  const own = new Map<string, number>()
  const lives = new Int32Array(memory.lives)
  const table = new SharedTable(memory.table)
  const life = Atomics.add(lives, front, 1) + 1

  function share(range: string, count: number): void {
    if (count === 0) own.delete(range)
    else own.set(range, count)
    if (lives.length === 1) return
    table.update(
      `${front}.${life} ${range}`,
      (kept) => (kept === 0 && count === 0 ? undefined : count + KEPT_AT_ZERO),
      (lowest) => lowest < count + KEPT_AT_ZERO,
    )
  }

  function countAt(other: number, range: string): number {
    let count = 0
    const read = (kept: number): undefined => {
      count = Math.max(0, kept - KEPT_AT_ZERO)
      return undefined
    }
    table.update(`${other}.${Atomics.load(lives, other)} ${range}`, read, () => false)
    return count
  }

  return {
    of(range) {
      let count = own.get(range) ?? 0
      for (let other = 0; other < lives.length; other++) {
        if (other !== front) count += countAt(other, range)
      }
      return count
    },
    add: (range, by) => share(range, Math.max(0, (own.get(range) ?? 0) + by)),
  }
}
