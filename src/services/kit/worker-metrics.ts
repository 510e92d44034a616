/**
 * Metrics of a worker: its memory, which shows a leak, and its CPU time, which shows a worker that is busy all the
 * time.
 */

import { getHeapStatistics } from 'node:v8'
import { Counter, Gauge, type Registry } from 'prom-client'

export function workerMeters(registry: Registry): void {
  new Gauge({
    name: 'sibyl_thread_heap_bytes',
    help: 'The heap of a thread’s worker: in use, taken from the system, and outside of it (buffers)',
    labelNames: ['kind'],
    registers: [registry],
    collect() {
      const heap = getHeapStatistics()
      this.set({ kind: 'used' }, heap.used_heap_size)
      this.set({ kind: 'total' }, heap.total_heap_size)
      this.set({ kind: 'external' }, heap.external_memory)
    },
  })
  new Counter({
    name: 'sibyl_thread_cpu_seconds_total',
    help: 'Processor time of a thread’s worker; threads that share a worker all report the sum',
    registers: [registry],
    collect() {
      const { user, system } = process.threadCpuUsage()
      this.reset()
      this.inc((user + system) / 1e6)
    },
  })
}
