/** Removes faults from a failed simulation while the same invariant stays broken. */

import { FAULT_KINDS } from './faults.ts'
import { type SimulationOptions, type SimulationResult, simulate } from './simulation.ts'

/**
 * Simulates the failed run again with fewer and fewer faults, at most `runsMax` times. Returns the run with the fewest
 * faults that still breaks the same invariant.
 */
export async function shrink(
  failed: SimulationResult,
  options: SimulationOptions,
  runsMax = 60,
): Promise<SimulationResult> {
  const { violation } = failed
  let best = failed
  let suppressed = new Set<string>()
  let runs = 0

  async function without(names: readonly string[]): Promise<void> {
    if (++runs > runsMax) return
    const tried = new Set([...suppressed, ...names])
    const result = await simulate({ ...options, suppressed: tried })
    if (result.violation?.invariant !== violation?.invariant) return
    suppressed = tried
    best = result
  }

  for (const kind of FAULT_KINDS) {
    if (best.faults.some((name) => name.startsWith(`${kind}#`))) await without([kind])
  }
  for (let size = Math.ceil(best.faults.length / 2); size >= 1; size = Math.floor(size / 2)) {
    for (let from = 0; from < best.faults.length && runs <= runsMax; from += size) {
      await without(best.faults.slice(from, from + size))
    }
  }
  return best
}
