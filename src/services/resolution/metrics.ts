/** Metrics and log lines of settled resolutions. */

import { Counter, Gauge } from 'prom-client'
import type { ThreadContext } from '#services/kit/kit.ts'
import type { ResolutionEvent, ResolutionState } from './resolution.ts'

export function resolutionMeters(
  { registry, log }: ThreadContext,
  state: () => ResolutionState | undefined,
) {
  const registers = [registry]
  const settled = new Counter({
    name: 'sibyl_resolutions_sent_total',
    help: 'Transactions that settled a resolution or reported its payout, by how they ended',
    labelNames: ['outcome'],
    registers,
  })
  const troubles = new Counter({
    name: 'sibyl_resolution_faults_total',
    help: 'Failures of the chain or the database while settling resolutions',
    registers,
  })
  new Gauge({
    name: 'sibyl_resolutions_refused',
    help: 'Resolutions that cannot be settled yet although their dispute window has ended, mostly because of a dispute',
    registers,
    collect() {
      this.set(state()?.pauses.size ?? 0)
    },
  })

  return {
    said(said: ResolutionEvent): void {
      switch (said.type) {
        case 'sent': {
          const { reference, marketId } = said.due
          log.info({ reference, marketId, txHash: said.txHash }, 'a resolution is being settled')
          return
        }
        case 'ended': {
          const { type: _, ...facts } = said
          settled.inc({ outcome: said.outcome })
          if (said.outcome === 'succeeded') log.info(facts, 'a resolution is settled')
          else log.warn(facts, 'a resolution was not settled')
          return
        }
        case 'refused':
          log.debug({ ...said.due, why: said.why }, 'a resolution cannot be settled yet')
          return
        case 'trouble':
          troubles.inc()
          log.warn({ why: said.why }, 'an error occurred while resolutions were settled')
      }
    },
    /** Counts an error from which the transaction sender recovers on its own. */
    troubled: () => troubles.inc(),
  }
}
