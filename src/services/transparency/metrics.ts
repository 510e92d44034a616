/** Metrics and log lines of the public log. */

import { Counter, Gauge } from 'prom-client'
import type { ThreadContext } from '#services/kit/kit.ts'
import type { PublicLogEvent, PublicLogState } from './public-log.ts'
import type { CosignerEvent } from './thread/cosigners.ts'

export function publicLogMeters(
  { registry, log }: ThreadContext,
  state: () => PublicLogState | undefined,
) {
  const registers = [registry]
  const counter = (name: string, help: string) => new Counter({ name, help, registers })
  const entries = counter('sibyl_public_log_entries_total', 'Entries added to the public log')
  const events = counter(
    'sibyl_public_log_events_total',
    'Events in the entries added to the public log',
  )
  const bytes = counter(
    'sibyl_public_log_bytes_total',
    'Bytes of the entries added to the public log',
  )
  const segments = counter(
    'sibyl_past_book_segments_total',
    'Segments of the public log whose books were stored',
  )
  const faults = counter(
    'sibyl_public_log_faults_total',
    'Failures to update the public log; repeated failures with the same reason count once',
  )
  new Gauge({
    name: 'sibyl_public_log_size',
    help: 'Number of entries in the public log of a partition',
    labelNames: ['partition'],
    registers,
    collect() {
      for (const [partition, { builder }] of state()?.trees ?? []) {
        this.set({ partition }, builder.size)
      }
    },
  })
  const cosignatures = new Counter({
    name: 'sibyl_public_log_cosignatures_total',
    help: 'Checkpoints submitted to a witness, by result',
    labelNames: ['witness', 'result'],
    registers,
  })
  const failing = new Set<string>()
  return {
    cosigned({ witness, why }: CosignerEvent): void {
      cosignatures.inc({ witness, result: why === undefined ? 'cosigned' : 'failed' })
      if (why === undefined) failing.delete(witness)
      else if (!failing.has(witness)) {
        failing.add(witness)
        log.warn({ witness, why }, 'a witness does not cosign')
      }
    },
    segmentStored(): void {
      segments.inc()
    },
    said(said: PublicLogEvent): void {
      if (said.type === 'fault') {
        faults.inc()
        log.warn({ why: said.why }, 'updating the public log failed')
        return
      }
      entries.inc(said.entries)
      events.inc(said.events)
      bytes.inc(said.bytes)
    },
  }
}
