/** Metrics of the threads: whether each thread is ready, and the number of its deaths. */

import { Gauge, type Registry } from 'prom-client'
import type { Supervisor } from '#runtime/supervisor.ts'

export function registerThreadMeters(registry: Registry, health: Supervisor['health']): void {
  new Gauge({
    name: 'sibyl_thread_ready',
    help: '1 while the thread is ready, otherwise 0; the exchange continues without an optional thread',
    labelNames: ['of', 'optional'],
    registers: [registry],
    collect() {
      this.reset()
      for (const [of, { ready, optional }] of Object.entries(health())) {
        this.set({ of, optional: String(optional) }, ready ? 1 : 0)
      }
    },
  })
  new Gauge({
    name: 'sibyl_thread_deaths',
    help: 'Number of deaths and failed starts of a thread since the start of the exchange',
    labelNames: ['of'],
    registers: [registry],
    collect() {
      this.reset()
      for (const [of, { deaths }] of Object.entries(health())) this.set({ of }, deaths)
    },
  })
}
