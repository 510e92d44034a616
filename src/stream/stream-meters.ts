/** Metrics of the stream. */

import { Counter, Gauge, type Registry } from 'prom-client'
import type { StreamFigures, StreamHub } from './hub.ts'

const GAUGES: Partial<Record<keyof StreamFigures, string>> = {
  connections: 'Open WebSockets.',
  subscriptions: 'Subscriptions of all WebSockets.',
  topics: 'Topics that have subscribers, or had subscribers a moment ago.',
  lagging: 'WebSockets whose clients read too slowly now.',
}
const COUNTERS: Partial<Record<keyof StreamFigures, string>> = {
  published: 'Messages published, each to any number of WebSockets.',
  dropped: 'Messages reported as dropped for slow clients. Such a client gets new snapshots.',
  closedLagging: 'WebSockets closed because their clients read too slowly.',
}

export function registerStreamMeters(registry: Registry, hub: StreamHub): void {
  for (const [key, help] of Object.entries(GAUGES)) {
    new Gauge({
      name: `sibyl_stream_${key}`,
      help,
      registers: [registry],
      collect() {
        this.set(hub.figures()[key as keyof StreamFigures])
      },
    })
  }
  for (const [key, help] of Object.entries(COUNTERS)) {
    const name = key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
    new Counter({
      name: `sibyl_stream_${name}_total`,
      help,
      registers: [registry],
      collect() {
        this.reset()
        this.inc(hub.figures()[key as keyof StreamFigures])
      },
    })
  }
}
