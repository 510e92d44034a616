/** What the heap of a thread's worker takes; threads that share a worker share its heap, and tell the same. */

import { getHeapStatistics } from 'node:v8'
import { Gauge, type Registry } from 'prom-client'

export function heapMeters(registry: Registry): void {
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
}
