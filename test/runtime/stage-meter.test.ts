import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Registry } from 'prom-client'
import { makeStageMeter } from '#runtime/stage-meter.ts'

test('if several writes pass a processing stage together, the metrics count each write', async () => {
  const registry = new Registry()
  const meter = makeStageMeter(registry)
  meter.record('commit', 2, 5)
  meter.record('commit', 30_000)
  meter.record('queue', -0.1)
  const text = await registry.metrics()
  const lines = new Set(text.split('\n'))
  assert(lines.has('sibyl_write_stage_seconds_bucket{le="0.001",stage="commit"} 0'))
  assert(lines.has('sibyl_write_stage_seconds_bucket{le="0.0025",stage="commit"} 5'))
  assert(lines.has('sibyl_write_stage_seconds_bucket{le="+Inf",stage="commit"} 6'))
  assert(lines.has('sibyl_write_stage_seconds_count{stage="commit"} 6'))
  assert(lines.has('sibyl_write_stage_seconds_sum{stage="commit"} 30.01'))
  // The clocks of two threads may differ slightly, so a negative time counts as zero.
  assert(lines.has('sibyl_write_stage_seconds_sum{stage="queue"} 0'))
  assert(!text.includes('stage="parse"'))
})
