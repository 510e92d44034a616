/** Reads the exchange's metrics from `/metrics`: its CPU time, and the time of writes per stage. */

import { STAGES, type Stage } from '#runtime/stage-meter.ts'

export type StageCounts = {
  readonly count: number
  readonly seconds: number
  /** Pairs of an upper bound in seconds and the number of values at or below it. */
  readonly buckets: readonly (readonly [bound: number, below: number])[]
}

export type ServerMetrics = {
  readonly atMs: number
  readonly cpuSeconds: number
  readonly residentBytes: number
  readonly stages: Readonly<Partial<Record<Stage, StageCounts>>>
}

const STAGE_METRIC = 'sibyl_write_stage_seconds'
const LINE = /^(\w+)(?:\{([^}]*)\})? (\S+)$/

export function parseMetrics(text: string, atMs: number): ServerMetrics {
  let cpuSeconds = Number.NaN
  let residentBytes = Number.NaN
  const sums = new Map<Stage, { count: number; seconds: number; buckets: Map<number, number> }>()
  for (const line of text.split('\n')) {
    const [, name = '', labels = '', value] = LINE.exec(line) ?? []
    if (name === 'process_cpu_seconds_total') cpuSeconds = Number(value)
    else if (name === 'process_resident_memory_bytes') residentBytes = Number(value)
    if (!name.startsWith(STAGE_METRIC)) continue
    const stage = labelOf(labels, 'stage') as Stage
    const sum = sums.get(stage) ?? { count: 0, seconds: 0, buckets: new Map() }
    sums.set(stage, sum)
    // Each thread reports its own count. The exchange's count is the sum over its threads.
    if (name.endsWith('_count')) sum.count += Number(value)
    else if (name.endsWith('_sum')) sum.seconds += Number(value)
    else {
      const le = labelOf(labels, 'le')
      const bound = le === '+Inf' ? Number.POSITIVE_INFINITY : Number(le)
      sum.buckets.set(bound, (sum.buckets.get(bound) ?? 0) + Number(value))
    }
  }
  const stages = Object.fromEntries(
    STAGES.filter((stage) => sums.has(stage)).map((stage) => {
      const { count, seconds, buckets } = sums.get(stage)!
      return [stage, { count, seconds, buckets: [...buckets].sort(([a], [b]) => a - b) }]
    }),
  )
  return { atMs, cpuSeconds, residentBytes, stages }
}

function labelOf(labels: string, name: string): string {
  return new RegExp(`(?:^|,)${name}="([^"]*)"`).exec(labels)?.[1] ?? ''
}

export type StageSummary = {
  readonly stage: Stage
  readonly count: number
  readonly meanMs: number
  readonly p50Ms: number
  readonly p99Ms: number
}

/** Summarises the stages between two readings of the metrics. */
export function stagesBetween(before: ServerMetrics, after: ServerMetrics): StageSummary[] {
  const summaries: StageSummary[] = []
  for (const stage of STAGES) {
    const now = after.stages[stage]
    if (now === undefined) continue
    const then = before.stages[stage]
    const count = now.count - (then?.count ?? 0)
    if (count <= 0) continue
    const below = new Map(then?.buckets ?? [])
    const buckets = now.buckets.map(([bound, n]) => [bound, n - (below.get(bound) ?? 0)] as const)
    const quantileMs = (q: number): number => {
      let lower = 0
      let seen = 0
      for (const [bound, n] of buckets) {
        if (n >= q * count) {
          // The place of a value within its bucket is unknown, so it is interpolated linearly.
          const share = n === seen ? 1 : (q * count - seen) / (n - seen)
          return (Number.isFinite(bound) ? lower + (bound - lower) * share : lower) * 1_000
        }
        lower = bound
        seen = n
      }
      return lower * 1_000
    }
    const meanMs = ((now.seconds - (then?.seconds ?? 0)) / count) * 1_000
    summaries.push({ stage, count, meanMs, p50Ms: quantileMs(0.5), p99Ms: quantileMs(0.99) })
  }
  return summaries
}
