/** Metrics and log lines of a chain's relayer. */

import { Counter, Gauge, Histogram } from 'prom-client'
import { WEI_PER_GWEI } from '#chain/sender/fees.ts'
import type { Address } from '#domain/ids.ts'
import type { Kit } from '#services/kit/kit.ts'
import type { RelayerEvent, RelayerState } from './state.ts'

export function relayerMeters({ registry, log }: Kit, state: () => RelayerState | undefined) {
  const registers = [registry]
  const operations = new Counter({
    name: 'sibyl_relayer_operations_total',
    help: 'Operations that were asked for, by kind and what became of the request',
    labelNames: ['kind', 'result'],
    registers,
  })
  const ends = new Counter({
    name: 'sibyl_relayer_transactions_total',
    help: 'Transactions of the relayer that ended, by how',
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
    help: 'From the request to the broadcast',
    buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers,
  })
  const balance = new Gauge({
    name: 'sibyl_relayer_balance_ether',
    help: 'What a key of the relayer has left for gas',
    labelNames: ['key'],
    registers,
  })
  const low = new Gauge({
    name: 'sibyl_relayer_balance_low',
    help: '1 while a key of the relayer has less than it should',
    labelNames: ['key'],
    registers,
  })
  const troubles = new Counter({
    name: 'sibyl_relayer_faults_total',
    help: 'Failures of the chain or the database that the relayer met, by where',
    labelNames: ['where'],
    registers,
  })
  new Gauge({
    name: 'sibyl_relayer_underway',
    help: 'Operations that have not ended',
    registers,
    collect() {
      this.set(state()?.underway.size ?? 0)
    },
  })
  new Gauge({
    name: 'sibyl_relayer_gas_today',
    help: 'Gas of today by the budget that pays, what is under way by its limit',
    labelNames: ['purpose'],
    registers,
    collect() {
      const { redemption = 0, other = 0 } = state()?.gasToday ?? {}
      this.set({ purpose: 'redemption' }, redemption)
      this.set({ purpose: 'other' }, other)
    },
  })
  /** Keys already reported as low: each is reported once. */
  const lowKeys = new Set<Address>()

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
          const { lane: key, wei, isLow } = event
          balance.set({ key }, Number(wei / WEI_PER_GWEI) / 1e9)
          low.set({ key }, isLow ? 1 : 0)
          if (isLow && !lowKeys.has(key)) {
            log.warn({ key, wei: String(wei) }, 'a key of the relayer runs out of money for gas')
            lowKeys.add(key)
          } else if (!isLow) lowKeys.delete(key)
          return
        }
        case 'trouble': {
          const { where, trouble } = event
          troubles.inc({ where })
          if (trouble.code === 'BUG') log.error({ where, trouble }, 'the relayer met a bug')
          else log.warn({ where, trouble }, 'the relayer met a fault')
        }
      }
    },
    /** Counts an error that the client or lane recovers from. */
    troubled(where: 'rpc' | 'journal'): void {
      troubles.inc({ where })
    },
  }
}
