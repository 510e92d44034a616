/** Metrics of the copy of the log: a node whose copy is late takes longer to take over. */

import { Gauge } from 'prom-client'
import type { ThreadContext } from '#services/kit/kit.ts'

type Copy = { copiedAtMs: number; copied: number; appended: number }

export function logCopyMeters({
  registry,
  monotonicMs,
}: Pick<ThreadContext, 'registry' | 'monotonicMs'>) {
  const registers = [registry]
  const copies = new Map<number, Copy>()
  new Gauge({
    ...{ name: 'sibyl_log_copy_lag_seconds', registers },
    help: 'Time since the copy of the oldest partition last had all that the log has',
    collect() {
      const nowMs = monotonicMs()
      const lags = [...copies.values()].map(({ copiedAtMs }) => nowMs - copiedAtMs)
      this.set(Math.max(0, ...lags) / 1_000)
    },
  })
  new Gauge({
    ...{ name: 'sibyl_log_copy_behind_events', registers },
    help: 'Events that the owners have reported and that the copy lacks',
    collect() {
      let events = 0
      for (const { copied, appended } of copies.values()) events += Math.max(0, appended - copied)
      this.set(events)
    },
  })
  return {
    /** Reports that exactly these partitions are copied from now on. */
    follow(partitions: readonly number[]): void {
      for (const partition of copies.keys()) {
        if (!partitions.includes(partition)) copies.delete(partition)
      }
      for (const partition of partitions) {
        if (copies.has(partition)) continue
        copies.set(partition, { copiedAtMs: monotonicMs(), copied: 0, appended: 0 })
      }
    },
    /** Records the last offsets that an owner has reported for its partitions. */
    appended(offsets: readonly (readonly [partition: number, offset: number])[]): void {
      for (const [partition, offset] of offsets) {
        const copy = copies.get(partition)
        if (copy !== undefined) copy.appended = Math.max(copy.appended, offset)
      }
    },
    /**
     * Records that the copy of a partition is complete; `offset` is undefined if the partition is no longer followed.
     */
    pulled(partition: number, offset: number | undefined): void {
      const copy = copies.get(partition)
      if (copy === undefined || offset === undefined) return
      copy.copied = offset
      copy.copiedAtMs = monotonicMs()
    },
  }
}
