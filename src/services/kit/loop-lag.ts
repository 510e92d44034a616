/** Measures how late the event loop of a worker is. A late loop delays every message of its threads. */

import { Histogram, type Registry } from 'prom-client'

/** Interval of the samples. */
export const SAMPLE_MS = 100
const BUCKETS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]

/** Calls `observe` about every 100 ms with the delay of the event loop, until the returned function is called. */
export type WatchLoop = (observe: (lateMs: number) => void) => () => void

/** Starts to measure the lag of the event loop; returns a function that ends the measurement. */
export function loopLagMeter(registry: Registry, watch: WatchLoop): () => void {
  const lag = new Histogram({
    name: 'sibyl_thread_loop_lag_seconds',
    help: 'How late the event loop of a thread’s worker was, 10 times a second; threads that share a worker all report it',
    buckets: BUCKETS,
    registers: [registry],
  })
  return watch((lateMs) => lag.observe(lateMs / 1_000))
}
