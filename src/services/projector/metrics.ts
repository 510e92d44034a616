/** Metrics of the store: how far the database is behind the logs. */

import { Gauge } from 'prom-client'
import type { ThreadContext } from '#services/kit/kit.ts'
import type { StoreState } from './projector.ts'

export function storeMeters(
  { registry }: ThreadContext,
  state: () => StoreState | undefined,
): void {
  new Gauge({
    name: 'sibyl_projection_behind_events',
    help: 'Events that are durable and not yet in the database',
    registers: [registry],
    collect() {
      const partitions = state()?.partitions
      if (partitions === undefined) return
      let events = 0
      for (const { appended, projected } of partitions.values()) events += appended - projected
      this.set(events)
    },
  })
}
