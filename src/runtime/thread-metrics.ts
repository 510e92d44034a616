/** Collects the metrics of all threads for the supervisor. */

import { inTime } from './in-time.ts'
import type { Supervised } from './supervised.ts'

export async function metricsOf(state: Supervised): Promise<object[][]> {
  const own = state.options.ownMetrics === undefined ? [] : [state.options.ownMetrics()]
  const asked = state.hosts.map(async ({ running }) => {
    if (running === undefined) return []
    // A thread that has not answered yet is not queried again, so that its port does not fill. A thread that dies
    // returns nothing.
    const gone = running.exited.then(() => undefined)
    running.metrics ??= Promise.race([running.control.metrics() as Promise<object[][]>, gone])
      .catch(() => undefined)
      .finally(() => {
        running.metrics = undefined
      })
    return (await inTime(running.metrics, state.options.healthIntervalMs)) ?? []
  })
  return [...(await Promise.all(own)), ...(await Promise.all(asked)).flat()]
}

/**
 * Returns metrics that were collected recently, so that the threads collect them once, however many fronts are scraped.
 */
export function keptMetrics(state: Supervised): Promise<object[][]> {
  const atMs = performance.now()
  if (
    state.collected === undefined ||
    atMs - state.collected.atMs >= (state.options.metricsKeepMs ?? 0)
  ) {
    state.collected = { atMs, metrics: metricsOf(state) }
  }
  return state.collected.metrics
}
