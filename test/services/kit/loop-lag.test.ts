import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Registry } from 'prom-client'
import { loopLagMeter } from '#services/kit/loop-lag.ts'
import { watchLoop } from '#services/kit/world.ts'
import { eventually } from '../../support/eventually.ts'

test('the metrics report the delay of a blocked event loop, however often the metrics are read', async (t) => {
  const registry = new Registry()
  t.after(loopLagMeter(registry, watchLoop))
  const countOf = async (le: number | '+Inf'): Promise<number> => {
    const { values = [] } =
      (await registry.getSingleMetric('sibyl_thread_loop_lag_seconds')?.get()) ?? {}
    return values.find(({ labels }) => labels.le === le)?.value ?? 0
  }
  await eventually(async () => assert((await countOf('+Inf')) > 0))
  const before = (await countOf('+Inf')) - (await countOf(0.25))
  const untilMs = performance.now() + 500
  while (performance.now() < untilMs);
  await eventually(async () => {
    assert((await countOf('+Inf')) - (await countOf(0.25)) > before)
  })
})
