/**
 * How much of a partition is so old that it may leave the log, by the partition's own clock. A look reads one
 * record: if it is old enough, so is all before it. So what stays may be some thousand records more.
 */

import type { MarketEvent } from '#domain/market-event.ts'
import type { EventLog } from '#log/event-log.ts'

/** Records between two looks. */
const STEP = 5_000

type Aged = { readonly below: number; readonly more: boolean }

export class Retention {
  readonly #ms: number
  /** By partition: what is below is old enough, and nothing more is before this time. */
  readonly #known = new Map<number, { readonly below: number; readonly untilMs: number }>()

  constructor(ms: number) {
    this.#ms = ms
  }

  /** How much below an offset may go, and whether another look may find more. */
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
