/** Metrics of a node: known nodes, slots served here, links to other nodes. */

import { Counter, Gauge } from 'prom-client'
import type { Kit } from '#services/kit/kit.ts'
import type { Bridge } from './bridge.ts'

export function bridgeMeters({ registry }: Kit, bridge: () => Bridge | undefined) {
  const registers = [registry]
  const refused = new Counter({
    ...{ name: 'sibyl_cluster_messages_refused', registers },
    help: 'Messages that were dropped because their signature is missing or wrong',
  })
  new Gauge({
    ...{ name: 'sibyl_cluster_nodes', registers },
    help: 'Nodes of the cluster that are heard here, this one among them',
    collect() {
      this.set(bridge()?.nodes().length ?? 0)
    },
  })
  new Gauge({
    ...{ name: 'sibyl_cluster_links', registers },
    help: 'Links between threads of this node and those of others',
    collect() {
      this.set(bridge()?.links ?? 0)
    },
  })
  new Gauge({
    ...{ name: 'sibyl_cluster_slot_epoch', registers, labelNames: ['slot'] },
    help: 'What this node serves, and under which epoch',
    collect() {
      this.reset()
      for (const { slot, epoch } of bridge()?.nodes()[0]?.claims ?? []) this.set({ slot }, epoch)
    },
  })
  return { refused: () => refused.inc() }
}
