/** Metrics of lost messages between threads: a stalled thread loses messages and loads the state again. */

import { Counter, type Registry } from 'prom-client'

export type LinkMeters = {
  /** A message to this peer was dropped. */
  dropped(peer: string): void
  /** Messages of this peer were lost here, and its state is loaded again. */
  reloaded(peer: string): void
}

export function linkMeters(registry: Registry): LinkMeters {
  const registers = [registry]
  const labelNames = ['peer']
  const drops = new Counter({
    name: 'sibyl_link_dropped_total',
    help: 'Messages to a thread that were dropped, because it does not receive',
    ...{ labelNames, registers },
  })
  const reloads = new Counter({
    name: 'sibyl_link_reloads_total',
    help: 'Reloads after messages of another thread were lost here',
    ...{ labelNames, registers },
  })
  return {
    dropped: (peer) => drops.inc({ peer }),
    reloaded: (peer) => reloads.inc({ peer }),
  }
}
