/** Metrics of the price streams. */

import { Counter, Gauge, type Registry } from 'prom-client'
import type { SseHub } from './sse.ts'

export function registerSseMeters(registry: Registry, hub: Pick<SseHub, 'figures'>): void {
  const registers = [registry]
  new Gauge({
    name: 'sibyl_sse_readers',
    help: 'Readers of price streams',
    registers,
    collect() {
      this.set(hub.figures().readers)
    },
  })
  for (const [name, help, figure] of [
    [
      'sibyl_sse_events_total',
      'Published events of price streams, each counted once for all its readers',
      'published',
    ],
    ['sibyl_sse_skipped_total', 'Events that slow readers skipped', 'skipped'],
    [
      'sibyl_sse_cut_total',
      'Readers that were disconnected because they accepted no data for too long',
      'cut',
    ],
  ] as const) {
    new Counter({
      name,
      help,
      registers,
      collect() {
        this.reset()
        this.inc(hub.figures()[figure])
      },
    })
  }
}
