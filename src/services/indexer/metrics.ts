/** Metrics of the indexer: position of each chain, failed requests, events set aside. */

import { Counter, Gauge } from 'prom-client'
import type { SetAside } from '#domain/chain-event.ts'
import type { ThreadContext } from '#services/kit/kit.ts'
import { type IndexerState, indexedBlock } from './indexer.ts'

/** Maximum number of warnings per range, so that a stranger cannot fill the program's log. */
const WARNINGS_MAX = 10

export function indexerMeters(
  { registry, log }: ThreadContext,
  states: () => Iterable<IndexerState>,
) {
  const registers = [registry]
  const rpcErrors = new Counter({
    name: 'sibyl_chain_rpc_errors_total',
    help: 'Failed requests to a chain, including those that another RPC URL then answered',
    labelNames: ['chain', 'host'],
    registers,
  })
  const setAsideTotal = new Counter({
    name: 'sibyl_chain_events_set_aside_total',
    help: 'Events of our contracts that were not indexed since the start, because they could not be decoded or stored; `npm run audit` lists them',
    labelNames: ['chain'],
    registers,
  })
  const gauge = (name: string, help: string, value: (state: IndexerState) => number) =>
    new Gauge({
      name,
      help,
      labelNames: ['chain'],
      registers,
      collect() {
        for (const state of states()) this.set({ chain: state.chainId }, value(state))
      },
    })
  gauge(
    'sibyl_chain_head_block',
    'The newest block of the chain that the indexer has seen',
    (state) => state.head,
  )
  gauge(
    'sibyl_chain_indexed_block',
    'The newest block whose events are in the database',
    indexedBlock,
  )
  gauge(
    'sibyl_chain_lag_blocks',
    'Blocks that have enough confirmations, but whose events are not in the database yet',
    (state) => Math.max(0, state.head - state.confirmations - indexedBlock(state)),
  )
  gauge('sibyl_chain_reorgs', 'Reorganisations since the start', (state) => state.reorgs)

  return {
    unanswered(chainId: number, trouble: { readonly host: string; readonly why: string }): void {
      const { host, why } = trouble
      rpcErrors.inc({ chain: chainId, host })
      log.debug({ chainId, host, why }, 'a request to the chain failed')
    },
    setAside(chainId: number, events: readonly SetAside[]): void {
      setAsideTotal.inc({ chain: chainId }, events.length)
      for (const { blockNumber, logIndex, txHash, event, why } of events.slice(0, WARNINGS_MAX)) {
        const place = { chainId, txHash, blockNumber, logIndex }
        log.warn(
          { ...place, event, why },
          'an event of the chain was not applied, because it could not be decoded or stored',
        )
      }
      const more = events.length - WARNINGS_MAX
      if (more > 0) log.warn({ chainId, more }, 'more events of the chain were not applied')
    },
  }
}
