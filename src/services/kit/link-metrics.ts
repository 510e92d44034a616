/** What is lost between threads, and made good: a thread that stalls loses what it is told, and loads it anew. */

import { Counter, type Registry } from 'prom-client'

export type LinkMeters = {
  /** Something that this peer was told was dropped. */
  dropped(peer: string): void
  /** What this peer had told was lost here, and is loaded anew. */
  reloaded(peer: string): void
}

export function linkMeters(registry: Registry): LinkMeters {
  const registers = [registry]
  const labelNames = ['peer']
  const drops = new Counter({
    name: 'sibyl_link_dropped_total',
    help: 'Messages that a thread was to be told and that were dropped, because it takes none',
    ...{ labelNames, registers },
  })
  const reloads = new Counter({
    name: 'sibyl_link_reloads_total',
    help: 'How often something that another thread told was lost here, and loaded anew',
    ...{ labelNames, registers },
  })
  return {
    dropped: (peer) => drops.inc({ peer }),
    reloaded: (peer) => reloads.inc({ peer }),
  }
}
