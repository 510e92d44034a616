/** Metrics: number of log partitions that a front follows. */

import { Gauge, type Registry } from 'prom-client'

export function partitionMeters(registry: Registry, followed: () => number): void {
  new Gauge({
    name: 'sibyl_front_partitions_followed',
    help: 'Partitions of the log with events that this front receives; the others are idle, because no client here uses them',
    registers: [registry],
    collect() {
      this.set(followed())
    },
  })
}
