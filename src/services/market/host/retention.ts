/**
 * Finds the records of a partition that are old enough to be removed from the log. Their age is measured at the time of
 * the partition's latest batch. Only one of every few thousand records is checked: if that record is old enough, all
 * records before it are old enough as well. Old records after the last checked one may therefore stay longer.
 */

import type { MarketEvent } from '#domain/market-event.ts'
import type { EventLog } from '#log/event-log.ts'

/** Number of records from one checked record to the next. */
const STEP = 5_000

type Aged = { readonly below: number; readonly more: boolean }

export class Retention {
  readonly #ms: number
  /**
   * For each partition: records below offset `below` are old enough to be removed. All later records must stay at least
   * until `untilMs`.
   */
  readonly #known = new Map<number, { readonly below: number; readonly untilMs: number }>()

  constructor(ms: number) {
    this.#ms = ms
  }

  /** Returns the offset below which records are old enough to be removed, and whether another check may find more. */
  look(log: Pick<EventLog<MarketEvent>, 'state' | 'read'>, partition: number, below: number): Aged {
    const { firstOffset, lastMs } = log.state(partition)
    const known = this.#known.get(partition)
    const aged = Math.max(known?.below ?? 0, firstOffset)
    const next = Math.min(aged + STEP, below)
    if (next <= aged || lastMs < (known?.untilMs ?? 0)) return { below: aged, more: false }
    const [record] = log.read(partition, next - 1, 1)
    const untilMs = (record?.event.atMs ?? lastMs) + this.#ms
    if (untilMs > lastMs) {
      this.#known.set(partition, { below: aged, untilMs })
      return { below: aged, more: false }
    }
    this.#known.set(partition, { below: next, untilMs: 0 })
    return { below: next, more: next < below }
  }
}
