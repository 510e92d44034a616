/**
 * Meters of the front. The hot path only adds to typed arrays; names and labels are added when the metrics are scraped,
 * through a prom-client registry.
 */

import { Counter, Gauge, type Registry } from 'prom-client'
import {
  countTime,
  makeTimeBuckets,
  registerTimeBuckets,
  type TimeBuckets,
} from '#runtime/time-buckets.ts'

/** Upper bounds of the duration buckets, in seconds. */
const BOUNDS = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
]
const STATUS_MIN = 100
const STATUSES = 500

export type Meter = {
  readonly method: string
  readonly route: string
  /** Index: status − 100. */
  readonly statuses: Float64Array
  readonly durations: TimeBuckets
  aborted: number
}

export function makeMeter(method: string, route: string): Meter {
  return {
    method,
    route,
    statuses: new Float64Array(STATUSES),
    durations: makeTimeBuckets(BOUNDS),
    aborted: 0,
  }
}

export function record(meter: Meter, status: number, seconds: number): void {
  meter.statuses[status - STATUS_MIN]! += 1
  countTime(meter.durations, seconds)
}

/** Registers the front's metrics; each scrape reads the values from the meters. */
export function registerMeters(
  registry: Registry,
  meters: readonly Meter[],
  gauges: {
    readonly inFlight: () => number
    readonly refusedLate: () => number
    readonly connections: () => number
  },
): void {
  new Counter({
    name: 'sibyl_http_requests_total',
    help: 'Requests answered, by method, route and status.',
    labelNames: ['method', 'route', 'status'],
    registers: [registry],
    collect() {
      this.reset()
      for (const { method, route, statuses } of meters) {
        for (let at = 0; at < STATUSES; at++) {
          const count = statuses[at]!
          if (count > 0) this.inc({ method, route, status: String(at + STATUS_MIN) }, count)
        }
      }
    },
  })
  new Counter({
    name: 'sibyl_http_requests_aborted_total',
    help: 'Requests whose client disconnected before the answer.',
    labelNames: ['method', 'route'],
    registers: [registry],
    collect() {
      this.reset()
      for (const { method, route, aborted } of meters) {
        if (aborted > 0) this.inc({ method, route }, aborted)
      }
    },
  })
  new Gauge({
    name: 'sibyl_http_requests_in_flight',
    help: 'Requests that wait for their body or their answer.',
    registers: [registry],
    collect() {
      this.set(gauges.inFlight())
    },
  })
  new Gauge({
    name: 'sibyl_http_requests_refused_late',
    help: 'Rejections that are delayed, because the client keeps sending requests that are rejected.',
    registers: [registry],
    collect() {
      this.set(gauges.refusedLate())
    },
  })
  new Gauge({
    name: 'sibyl_http_connections',
    help: 'Open connections.',
    registers: [registry],
    collect() {
      this.set(gauges.connections())
    },
  })
  registerTimeBuckets(
    registry,
    'sibyl_http_request_duration_seconds',
    'Time from the request to its answer.',
    meters.map(({ method, route, durations }) => ({
      labels: { method, route },
      buckets: durations,
    })),
  )
}
