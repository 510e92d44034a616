/** Answers operators' requests for the readiness and the metrics of a process. */

import { AggregatorRegistry } from 'prom-client'
import type { Settings } from '#config/settings-schema.ts'
import type { Readiness } from '#http/routes/readyz.ts'
import { shareReads } from '#http/shared-reads.ts'
import { type Clock, hasClockJumped } from '#runtime/clock.ts'
import type { RemoteSupervisor } from '#runtime/thread.ts'

/**
 * Makes the functions that return the readiness and the metrics. Simultaneous requests share one answer, and
 * metrics are also reused for `metricsCacheMs`. `more` returns further readiness checks.
 */
export function makeOperation(
  { front }: Settings,
  clock: Clock,
  supervisor: RemoteSupervisor,
  more: () => Readiness = () => ({}),
) {
  const text = shareReads<string>({
    keepMs: front.metricsCacheMs,
    entriesMax: 1,
    clock,
  })
  const checks = shareReads<Readiness>({ keepMs: 0, entriesMax: 1, clock })
  const collect = async () => AggregatorRegistry.aggregate(await supervisor.metrics()).metrics()
  return {
    readiness: () => checks.read('', async () => ({ ...(await threadsOf(supervisor)), ...more() })),
    metrics: async () => text.read('', collect),
  }
}

async function threadsOf(supervisor: RemoteSupervisor): Promise<Readiness> {
  const all = Object.entries(await supervisor.threads())
  const checks = all.map(([thread, { ready, why, optional }]) => {
    return [thread, { ok: ready, why, ...(optional ? { optional } : {}) }] as const
  })
  // A jump of the machine's clock is reported, but the exchange stays ready, because its own time follows the monotonic
  // clock.
  const jumped = hasClockJumped()
  const why = jumped
    ? 'the clock of the machine has jumped, and the exchange ignores the jump until the new time is confirmed'
    : ''
  return { ...Object.fromEntries(checks), clock: { ok: !jumped, why, optional: true } }
}
