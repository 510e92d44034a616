/** Metrics: number of log partitions that a front follows. */

import { Gauge, type Registry } from 'prom-client'

export function partitionMeters(registry: Registry, followed: () => number): void {
  new Gauge({
    name: 'sibyl_front_partitions_followed',
    help: 'Partitions of the log whose events this front receives; other partitions are idle, because no client of this front uses them',
    registers: [registry],
    collect() {
      this.set(followed())
    },
  })
}
