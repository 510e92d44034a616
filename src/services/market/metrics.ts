/** Metrics of a market thread: time spent on its commands. */

import { Histogram } from 'prom-client'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import type { BatchTimes } from '#runtime/channel.ts'
import type { Command } from '#runtime/serve.ts'
import { makeStageMeter } from '#runtime/stage-meter.ts'
import type { ThreadContext } from '#services/kit/kit.ts'

export function marketMeters({ registry }: ThreadContext) {
  const stages = makeStageMeter(registry)
  const commitSeconds = new Histogram({
    name: 'sibyl_market_commit_seconds',
    help: 'Time to make a batch of commands durable',
    buckets: [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 1],
    registers: [registry],
  })
  return {
    committed(tookMs: number): void {
      commitSeconds.observe(tookMs / 1_000)
    },
    /**
     * Records the stage times of a batch. Each caller waits until its whole batch is handled, so the time of the batch
     * is recorded once per caller.
     */
    handled(batch: readonly Command<MarketThreadProtocol>[], times: BatchTimes): void {
      const { begunMs, handledMs, durableMs } = times
      let waiting = 0
      for (const { replyTo, sentAtMs } of batch) {
        if (replyTo === 0) continue
        waiting++
        if (sentAtMs > 0) stages.record('queue', begunMs - sentAtMs)
      }
      if (waiting === 0) return
      stages.record('match', handledMs - begunMs, waiting)
      stages.record('commit', durableMs - handledMs, waiting)
    },
  }
}
