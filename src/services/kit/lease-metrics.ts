/** Metrics of leases: which leases a node has, and when each lease was last renewed. */

import { Gauge } from 'prom-client'
import type { Lease } from '#store/engine/fence.ts'
import type { ThreadContext } from './kit.ts'

type MeteredRole = { readonly lease: Lease | undefined; readonly renewedAtMs: number }

export function leaseMeters(
  { registry, monotonicMs }: Pick<ThreadContext, 'registry' | 'monotonicMs'>,
  roles: ReadonlyMap<string, MeteredRole>,
  leaseMs: number,
): void {
  new Gauge({
    name: 'sibyl_lease_held',
    help: '1 while this node has a role that one node at a time may have, 0 while it stands by',
    labelNames: ['role'],
    registers: [registry],
    collect() {
      for (const [role, { lease }] of roles) this.set({ role }, lease === undefined ? 0 : 1)
    },
  })
  new Gauge({
    name: 'sibyl_lease_epoch',
    help: 'How often a role of this node has moved between nodes',
    labelNames: ['role'],
    registers: [registry],
    collect() {
      this.reset()
      for (const [role, { lease }] of roles) {
        if (lease !== undefined) this.set({ role }, lease.epoch)
      }
    },
  })

  new Gauge({
    name: 'sibyl_lease_age_seconds',
    help: `Time since the lease of a role of this node was renewed; after ${leaseMs / 1_000} s another node can take it`,
    labelNames: ['role'],
    registers: [registry],
    collect() {
      this.reset()
      for (const [role, { lease, renewedAtMs }] of roles) {
        if (lease !== undefined) this.set({ role }, (monotonicMs() - renewedAtMs) / 1_000)
      }
    },
  })
}
