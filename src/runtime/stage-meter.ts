/**
 * Measures how long a write spends in each stage between its arrival and its answer. Each thread measures its own
 * stages. Together they are one histogram with the label `stage`.
 *
 * | stage | from | to |
 * |---|---|---|
 * | parse | the whole body has arrived | the body matches its schema |
 * | authenticate | the check of the token begins | the token's owner is known |
 * | verify | the order is sent to the verify pool | the pool has answered |
 * | queue | the front sent the command | the command's batch begins |
 * | match | the batch begins | the batch is handled |
 * | commit | the batch is handled | the batch is durable |
 * | answer | the market sent the answer | the answer is written to the client |
 */

import type { Registry } from 'prom-client'
import {
  countTime,
  makeTimeBuckets,
  registerTimeBuckets,
  type TimeBuckets,
} from './time-buckets.ts'

export const STAGES = [
  'parse',
  'authenticate',
  'verify',
  'queue',
  'match',
  'commit',
  'answer',
] as const

export type Stage = (typeof STAGES)[number]

/** Upper bounds of the buckets in seconds: parsing takes microseconds, waiting may take seconds. */
const BOUNDS = [
  0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
  0.25, 0.5, 1, 2.5, 5, 10,
]

export type StageMeter = {
  /** Records that `writes` writes spent `ms` milliseconds each in a stage. */
  record(stage: Stage, ms: number, writes?: number): void
}

export function makeStageMeter(registry: Registry): StageMeter {
  const buckets = Object.fromEntries(
    STAGES.map((stage) => [stage, makeTimeBuckets(BOUNDS)]),
  ) as Record<Stage, TimeBuckets>
  registerTimeBuckets(
    registry,
    'sibyl_write_stage_seconds',
    'Time that orders and cancels spend in each stage of their processing.',
    STAGES.map((stage) => ({ labels: { stage }, buckets: buckets[stage] })),
  )
  return {
    record: (stage, ms, writes) => countTime(buckets[stage], Math.max(0, ms) / 1_000, writes),
  }
}
