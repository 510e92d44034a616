/**
 * Splits the time of orders into stages. The exchange reports its own stages in `Server-Timing`. The sender adds its
 * own delay, and the time that the exchange does not see. Quantiles of stages do not add up, because an order that is
 * slow in one stage is seldom slow in another.
 */

import { STAGES } from '#runtime/stage-meter.ts'
import { Histogram } from './histogram.ts'
import type { Answer } from './http-driver.ts'

export type OrderStages = {
  /** Counts an answer that has the times of its stages; others are skipped. */
  add(answer: Answer): void
  /**
   * Returns the p50 and p99 of each stage in milliseconds. In addition to the stages of the exchange:
   * - `unsent`: the time until the request was sent
   * - `outside`: the time in the network, and in buffers that the receiver has not read yet
   * - `between`: the time at the front that belongs to no stage
   */
  line(): string
}

export function makeOrderStages(): OrderStages {
  const times = new Map<string, Histogram>(
    ['unsent', 'outside', ...STAGES, 'between'].map((stage) => [stage, new Histogram()]),
  )
  const count = (stage: string, ms: number) => times.get(stage)?.recordMs(ms)
  return {
    add({ latencyMs, unsentMs, serverTiming }) {
      const told = timesIn(serverTiming)
      const total = told.get('total')
      if (total === undefined) return
      let between = total
      for (const stage of STAGES) {
        const ms = told.get(stage)
        if (ms === undefined) continue
        count(stage, ms)
        between -= ms
      }
      count('between', between)
      count('unsent', unsentMs)
      count('outside', latencyMs - unsentMs - total)
    },
    line() {
      const stages = [...times].filter(([, { count: orders }]) => orders > 0)
      return stages.map(([stage, of]) => `${stage} ${quantiles(of)}`).join(', ')
    },
  }
}

function quantiles(of: Histogram): string {
  return `${of.quantileMs(0.5).toFixed(1)}/${of.quantileMs(0.99).toFixed(1)}`
}

function timesIn(serverTiming: string): Map<string, number> {
  const times = new Map<string, number>()
  for (const [, stage = '', ms] of serverTiming.matchAll(/(\w+);dur=([\d.]+)/g)) {
    times.set(stage, Number(ms))
  }
  return times
}
