/**
 * Metrics of a worker: its memory, which shows a leak, and its CPU time, which shows a worker that is busy all the
 * time.
 */

import { getHeapStatistics } from 'node:v8'
import { Counter, Gauge, type Registry } from 'prom-client'

export function workerMeters(registry: Registry): void {
  new Gauge({
    name: 'sibyl_thread_heap_bytes',
    help: 'Memory of a thread’s worker, by kind: used and total size of the heap, and memory outside the heap (buffers)',
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
