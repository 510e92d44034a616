/** The metrics of all threads, which the supervisor collects. */

import { inTime } from './in-time.ts'
import type { Supervised } from './supervised.ts'

export async function metricsOf(state: Supervised): Promise<object[][]> {
  const own = state.options.ownMetrics === undefined ? [] : [state.options.ownMetrics()]
  const asked = state.hosts.map(async ({ running }) => {
    if (running === undefined) return []
    // One that has not answered yet is not asked again: its port would only fill. One that dies tells nothing.
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

/** However many fronts are asked for metrics, the threads collect them once in a while. */
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
