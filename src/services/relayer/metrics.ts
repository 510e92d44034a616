/** Metrics and log lines of a chain's relayer. */

import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { ThreadContext } from '#services/kit/kit.ts'
import type { RelayerEvent, RelayerState } from './state.ts'

function underwayGauge(registers: Registry[], state: () => RelayerState | undefined): void {
  new Gauge({
    name: 'sibyl_relayer_underway',
    help: 'Operations that have not ended',
    registers,
    collect() {
      this.set(state()?.underway.size ?? 0)
    },
  })
}

export function relayerMeters(
  { registry, log, keys }: ThreadContext,
  state: () => RelayerState | undefined,
) {
  const registers = [registry]
  const operations = new Counter({
    name: 'sibyl_relayer_operations_total',
    help: 'Requested operations, by kind and result',
    labelNames: ['kind', 'result'],
    registers,
  })
  const ends = new Counter({
    name: 'sibyl_relayer_transactions_total',
    help: 'Transactions of the relayer that ended, by status',
    labelNames: ['status'],
    registers,
  })
  const gasUsed = new Counter({
    name: 'sibyl_relayer_gas_total',
    help: 'Gas that the relayer has paid for',
    registers,
  })
  const seconds = new Histogram({
    name: 'sibyl_relayer_send_seconds',
    help: 'Time from the request of an operation to the broadcast of its transaction',
    buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers,
  })
  const troubles = new Counter({
    name: 'sibyl_relayer_faults_total',
    help: 'Failures of the chain or the database in the relayer, by place',
    labelNames: ['where'],
    registers,
  })
  underwayGauge(registers, state)
  new Gauge({
    name: 'sibyl_relayer_gas_today',
    help: 'Gas that the relayer has used today, by budget; an operation in progress counts with its gas limit',
    labelNames: ['purpose'],
    registers,
    collect() {
      const { redemption = 0, other = 0 } = state()?.gasToday ?? {}
      this.set({ purpose: 'redemption' }, redemption)
      this.set({ purpose: 'other' }, other)
    },
  })

  return {
    said(event: RelayerEvent): void {
      switch (event.type) {
        case 'sent': {
          const { kind, lane, txHash, tookMs } = event
          operations.inc({ kind, result: 'sent' })
          seconds.observe(tookMs / 1_000)
          log.info({ kind, lane, txHash, tookMs }, 'relayed')
          return
        }
        case 'repeated':
          operations.inc({ kind: event.kind, result: 'repeated' })
          return
        case 'unneeded':
          operations.inc({ kind: event.kind, result: 'unneeded' })
          return
        case 'refused': {
          const { kind, rejection } = event
          operations.inc({ kind, result: rejection.rejected.toLowerCase() })
          log.info({ kind, ...rejection }, 'refused to relay')
          return
        }
        case 'ended': {
          const { type: _, ...facts } = event
          ends.inc({ status: facts.status })
          gasUsed.inc(facts.gas)
          if (facts.status === 'failed') log.warn(facts, 'a relayed transaction failed')
          else log.info(facts, 'a relayed transaction is confirmed')
          return
        }
        case 'weighed': {
          const { lane: address, wei, isLow } = event
          const chainId = state()?.rules.chainId ?? 0
          keys.weighed({ setting: 'SIBYL_RELAYER_KEYS', chainId, address }, wei, isLow)
          return
        }
        case 'trouble': {
          const { where, trouble } = event
          troubles.inc({ where })
          if (trouble.code === 'BUG')
            log.error({ where, trouble }, 'the relayer failed because of a bug')
          else log.warn({ where, trouble }, 'a step of the relayer failed; it is retried')
        }
      }
    },
    /** Counts an error from which the chain client or the transaction sender recovers on its own. */
    troubled(where: 'rpc' | 'journal'): void {
      troubles.inc({ where })
    },
  }
}
