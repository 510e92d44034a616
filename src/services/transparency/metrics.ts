/** Metrics and log lines of the public log. */

import { Counter, Gauge } from 'prom-client'
import type { ThreadContext } from '#services/kit/kit.ts'
import type { PublicLogEvent, PublicLogState } from './public-log.ts'

export function publicLogMeters(
  { registry, log }: ThreadContext,
  state: () => PublicLogState | undefined,
) {
  const registers = [registry]
  const counter = (name: string, help: string) => new Counter({ name, help, registers })
  const entries = counter('sibyl_public_log_entries_total', 'Entries added to the public log')
  const events = counter('sibyl_public_log_events_total', 'Events in these entries')
  const bytes = counter('sibyl_public_log_bytes_total', 'Bytes of these entries')
  const segments = counter(
    'sibyl_past_book_segments_total',
    'Segments of the public log whose books were stored',
  )
  const faults = counter('sibyl_public_log_faults_total', 'Turns of the public log that failed')
  new Gauge({
    name: 'sibyl_public_log_size',
    help: 'Entries of the public log of a partition',
    labelNames: ['partition'],
    registers,
    collect() {
      for (const [partition, { builder }] of state()?.trees ?? []) {
        this.set({ partition }, builder.size)
      }
    },
  })
  return {
    segmentStored(): void {
      segments.inc()
    },
    said(said: PublicLogEvent): void {
      if (said.type === 'fault') {
        faults.inc()
        log.warn({ why: said.why }, 'the public log does not follow')
        return
      }
      entries.inc(said.entries)
      events.inc(said.events)
      bytes.inc(said.bytes)
    },
  }
}
