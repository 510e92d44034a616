/** Collects the metrics of all threads for the supervisor. */

import { inTime } from './in-time.ts'
import type { Supervised } from './supervised.ts'

export async function metricsOf(state: Supervised): Promise<object[][]> {
  const own = state.options.ownMetrics === undefined ? [] : [state.options.ownMetrics()]
  const asked = state.hosts.map(async ({ running }) => {
    if (running === undefined) return []
    // A worker that has not answered the last query is not queried again, so that queries do not pile up in its port. A
    // worker that dies returns no metrics.
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
 * Returns the last collected metrics if they are younger than `metricsKeepMs`. Otherwise collects them again. So within
 * this time the threads collect their metrics only once, even if many fronts are scraped.
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
