/**
 * Histograms for Prometheus. Recording a time only increments elements of a typed array, which is cheap enough for the
 * hot path. Names and labels are added when metrics are read. prom-client's own histogram accepts only one observation
 * at a time. So the metric registered here implements only the part of prom-client's interface that a registry reads.
 */

import type { Metric, Registry } from 'prom-client'

export type TimeBuckets = {
  /** Upper bounds of the buckets in seconds. */
  readonly bounds: readonly number[]
  /**
   * Number of recorded times in each bucket, in the order of `bounds`. The last element counts the times above all
   * bounds.
   */
  readonly counts: Float64Array
  secondsTotal: number
}

export function makeTimeBuckets(bounds: readonly number[]): TimeBuckets {
  return { bounds, counts: new Float64Array(bounds.length + 1), secondsTotal: 0 }
}

/** Records `seconds` in the histogram, `times` times. */
export function countTime(buckets: TimeBuckets, seconds: number, times = 1): void {
  const { bounds, counts } = buckets
  let at = 0
  while (at < bounds.length && seconds > bounds[at]!) at++
  counts[at]! += times
  buckets.secondsTotal += seconds * times
}

type Labels = Readonly<Record<string, string>>
type LabelledBuckets = { readonly labels: Labels; readonly buckets: TimeBuckets }

/** Registers a histogram that is computed at each scrape. Label sets without counts are left out. */
export function registerTimeBuckets(
  registry: Registry,
  name: string,
  help: string,
  rows: readonly LabelledBuckets[],
): void {
  const head = { name, help, type: 'histogram', aggregator: 'sum' }
  registry.registerMetric({
    ...head,
    get: () => Promise.resolve({ ...head, values: rows.flatMap((row) => valuesOf(name, row)) }),
    reset: () => undefined,
  } as unknown as Metric)
}

type Value = { labels: Record<string, string | number>; value: number; metricName: string }

function valuesOf(name: string, { labels, buckets }: LabelledBuckets): Value[] {
  const { bounds, counts, secondsTotal } = buckets
  const values: Value[] = []
  let below = 0
  for (let at = 0; at < counts.length; at++) {
    below += counts[at]!
    const le = bounds[at] ?? '+Inf'
    values.push({ labels: { le, ...labels }, value: below, metricName: `${name}_bucket` })
  }
  if (below === 0) return []
  values.push({ labels, value: secondsTotal, metricName: `${name}_sum` })
  values.push({ labels, value: below, metricName: `${name}_count` })
  return values
}
