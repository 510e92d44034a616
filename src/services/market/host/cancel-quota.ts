/**
 * Limits the orders that a trader places and cancels without a fill. Such orders cost the trader nothing, but the
 * exchange must remember each until it expires. Above the hourly quota, new orders of the trader are refused; cancels
 * are always accepted. Counts are per market thread and are lost when the thread restarts.
 */

import type { Address } from '#domain/ids.ts'
import { QUOTA_TRADERS_MAX } from '#domain/limits.ts'
import type { MarketEvent } from '#domain/market-event.ts'

const HOUR_MS = 3_600_000

/**
 * Minimum time between two moves of a trader's entry to the end of the map. Moving the entry at each cancel would cost
 * too much.
 */
const MOVED_EVERY_MS = 60_000

type Count = { level: number; atMs: number; readonly movedAtMs: number }

export class CancelQuota {
  readonly #perHour: number
  readonly #tradersMax: number
  /** Counts by trader, sorted by the time of the trader's last cancel, to the minute. */
  readonly #counts = new Map<Address, Count>()

  constructor(perHour: number, tradersMax = QUOTA_TRADERS_MAX) {
    this.#perHour = perHour
    this.#tradersMax = tradersMax
  }

  /** Counts the event if it cancels an order that had no fill. */
  note(event: MarketEvent, nowMs: number): void {
    if (event.type !== 'OrderClosed' || event.reason !== 'cancelled') return
    if (event.remaining !== event.size) return
    const { trader } = event
    const known = this.#counts.get(trader)
    const level = this.#level(known, nowMs) + 1
    if (known !== undefined && nowMs - known.movedAtMs < MOVED_EVERY_MS) {
      known.level = level
      known.atMs = nowMs
      return
    }
    this.#counts.delete(trader)
    this.#counts.set(trader, { level, atMs: nowMs, movedAtMs: nowMs })
    if (this.#counts.size <= this.#tradersMax) return
    const [oldest] = this.#counts.keys()
    this.#counts.delete(oldest!)
  }

  isSpent(trader: Address, nowMs: number): boolean {
    const count = this.#counts.get(trader)
    return count !== undefined && this.#level(count, nowMs) >= this.#perHour
  }

  get traders(): number {
    return this.#counts.size
  }

  /** Returns the current count. Between cancels the count decreases evenly, by one quota per hour. */
  #level(count: Count | undefined, nowMs: number): number {
    if (count === undefined) return 0
    const ranOff = (Math.max(0, nowMs - count.atMs) * this.#perHour) / HOUR_MS
    return Math.max(0, count.level - ranOff)
  }
}
