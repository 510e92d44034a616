/** Metrics: CPU time of the verify threads, which is most of the CPU time of an order. */

import { Counter, type Registry } from 'prom-client'

export function verifyMeters(registry: Registry, cpuSeconds: () => Promise<number>): void {
  new Counter({
    name: 'sibyl_verify_cpu_seconds_total',
    help: 'Processor time of the threads that recover signers for this front',
    registers: [registry],
    async collect() {
      const seconds = await cpuSeconds()
      this.reset()
      this.inc(seconds)
    },
  })
}
