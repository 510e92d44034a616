/**
 * How many orders a trader places and cancels without a fill. Each must be remembered until it expires, and
 * costs nothing to make: beyond a generous number in an hour the trader's new orders wait. It counts what one
 * market thread sees, and begins anew with it; cancels are always taken.
 */

import type { Address } from '#domain/ids.ts'
import { QUOTA_TRADERS_MAX } from '#domain/limits.ts'
import type { MarketEvent } from '#domain/market-event.ts'

const HOUR_MS = 3_600_000

/** How often one who goes on cancelling becomes the last of all. */
const MOVED_EVERY_MS = 60_000

type Count = { level: number; atMs: number; readonly movedAtMs: number }

export class CancelQuota {
  readonly #perHour: number
  readonly #tradersMax: number
  /** The one who cancelled last is the last, to the minute. */
  readonly #counts = new Map<Address, Count>()

  constructor(perHour: number, tradersMax = QUOTA_TRADERS_MAX) {
    this.#perHour = perHour
    this.#tradersMax = tradersMax
  }

  /** Counts the event, if it is the end of an order that never had a fill. */
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

  /** It runs off evenly, a whole quota in an hour. */
  #level(count: Count | undefined, nowMs: number): number {
    if (count === undefined) return 0
    const ranOff = (Math.max(0, nowMs - count.atMs) * this.#perHour) / HOUR_MS
    return Math.max(0, count.level - ranOff)
  }
}
