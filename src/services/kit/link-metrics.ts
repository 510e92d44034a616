/**
 * Metrics of messages that were lost between threads. A thread that reads too slowly loses messages of another thread,
 * and then loads that thread's state again.
 */

import { Counter, type Registry } from 'prom-client'

export type LinkMeters = {
  /** Counts a dropped message to this peer. */
  dropped(peer: string): void
  /** Counts a loss of messages from this peer; the caller then loads the peer's state again. */
  reloaded(peer: string): void
}

export function linkMeters(registry: Registry): LinkMeters {
  const registers = [registry]
  const labelNames = ['peer']
  const drops = new Counter({
    name: 'sibyl_link_dropped_total',
    help: 'Messages to a thread that were dropped, because it does not read them',
    ...{ labelNames, registers },
  })
  const reloads = new Counter({
    name: 'sibyl_link_reloads_total',
    help: 'Reloads of the state of another thread, because messages of that thread were lost',
    ...{ labelNames, registers },
  })
  return {
    dropped: (peer) => drops.inc({ peer }),
    reloaded: (peer) => reloads.inc({ peer }),
  }
}
