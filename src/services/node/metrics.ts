/** Metrics of a node: known nodes, slots served here, links to other nodes. */

import { Counter, Gauge } from 'prom-client'
import type { ThreadContext } from '#services/kit/kit.ts'
import type { Bridge } from './bridge.ts'

export function bridgeMeters({ registry }: ThreadContext, bridge: () => Bridge | undefined) {
  const registers = [registry]
  const refused = new Counter({
    ...{ name: 'sibyl_cluster_messages_refused', registers },
    help: 'Messages that were dropped because their signature is missing or wrong',
  })
  new Gauge({
    ...{ name: 'sibyl_cluster_nodes', registers },
    help: 'Nodes of the cluster that this node receives beats from, including itself',
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
    help: 'Epoch of each slot that this node serves',
    collect() {
      this.reset()
      for (const { slot, epoch } of bridge()?.nodes()[0]?.claims ?? []) this.set({ slot }, epoch)
    },
  })
  new Gauge({
    ...{ name: 'sibyl_cluster_slot_served', registers, labelNames: ['slot', 'node'] },
    help: '1 for the node that serves a slot, in the view of this node; 0 with an empty node label while no node serves the slot',
    collect() {
      this.reset()
      for (const { slot, node } of bridge()?.owners() ?? []) {
        this.set({ slot, node: node ?? '' }, node === undefined ? 0 : 1)
      }
    },
  })
  const takeovers = new Counter({
    ...{ name: 'sibyl_cluster_takeovers_total', registers, labelNames: ['slot'] },
    help: 'Slots that this node has taken over, including planned hand-overs; the first start of a slot does not count',
  })
  return {
    refused: () => refused.inc(),
    /** The first epoch of a slot is a first start, so it is not counted as a takeover. */
    taken: (slot: string, epoch: number) => takeovers.inc({ slot }, epoch > 1 ? 1 : 0),
  }
}
