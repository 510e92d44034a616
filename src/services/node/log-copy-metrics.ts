/**
 * Metrics of the copy of the log. If a node's copy is behind the log, the node takes longer to take over a partition.
 */

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
    help: 'Time since the most outdated copy of a partition was last complete',
    collect() {
      const nowMs = monotonicMs()
      const lags = [...copies.values()].map(({ copiedAtMs }) => nowMs - copiedAtMs)
      this.set(Math.max(0, ...lags) / 1_000)
    },
  })
  new Gauge({
    ...{ name: 'sibyl_log_copy_behind_events', registers },
    help: 'Events that the owners of the partitions have reported, but that are not in the copy of the log yet',
    collect() {
      let events = 0
      for (const { copied, appended } of copies.values()) events += Math.max(0, appended - copied)
      this.set(events)
    },
  })
  return {
    /** Sets the partitions that are copied from now on; drops the metrics of all other partitions. */
    follow(partitions: readonly number[]): void {
      for (const partition of copies.keys()) {
        if (!partitions.includes(partition)) copies.delete(partition)
      }
      for (const partition of partitions) {
        if (copies.has(partition)) continue
        copies.set(partition, { copiedAtMs: monotonicMs(), copied: 0, appended: 0 })
      }
    },
    /** Records how far the log of each partition has grown, as its owner reported. */
    appended(offsets: readonly (readonly [partition: number, offset: number])[]): void {
      for (const [partition, offset] of offsets) {
        const copy = copies.get(partition)
        if (copy !== undefined) copy.appended = Math.max(copy.appended, offset)
      }
    },
    /**
     * Records the offset up to which a partition is copied. The offset is undefined if this node no longer copies the
     * partition.
     */
    pulled(partition: number, offset: number | undefined): void {
      const copy = copies.get(partition)
      if (copy === undefined || offset === undefined) return
      copy.copied = offset
      copy.copiedAtMs = monotonicMs()
    },
  }
}
