/**
 * Fills a log before an exchange starts on it. Passes commands directly to the code of a market thread, without
 * starting a thread.
 */

import { partitionOf } from '#config/topology.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { PACKED } from '#log/packed-event.ts'
import { openSqliteLog } from '#log/partition/sqlite-log.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import type { Message } from '#runtime/actor.ts'
import { monotonicMs } from '#runtime/clock.ts'
import { commit, prepare } from '#services/market/host/market-batch.ts'
import {
  type MarketThread,
  marketThread,
  newMarketThread,
} from '#services/market/host/market-host.ts'

/** Commands of one append. */
const BATCH = 1_000

type FilledLog = {
  readonly thread: MarketThread
  /** Handles the commands and makes their events durable. */
  run(commands: readonly Message<MarketThreadProtocol>[]): Promise<void>
  close(): Promise<void>
}

export function openFilledLog(dataDir: string, partitions: number): FilledLog {
  const own = Array.from({ length: partitions }, (_, partition) => partition)
  const log = openSqliteLog({ form: PACKED, dataDir, partitions, own })
  const topology = { partitions, marketThreads: 1, pins: {} }
  const thread = newMarketThread({
    log,
    partitionOf: (marketId) => partitionOf(marketId, topology),
    rules: { selfTrade: 'allow' },
    seed: 1,
    snapshotEvery: 1_000_000_000,
    monotonicMs,
  })
  const never = (): never => {
    throw new Error('the market called a function that this benchmark does not provide')
  }
  return {
    thread,
    async run(commands) {
      for (let from = 0; from < commands.length; from += BATCH) {
        const batch = commands.slice(from, from + BATCH)
        const said: MarketEvent[] = []
        const nowMs = Date.now()
        const emit = (event: MarketEvent) => void said.push(event)
        const context = { nowMs, emit, pipe: never, after: never, defer: never, answer: never }
        prepare(thread, batch)
        for (const { type, message } of batch) {
          const answer = marketThread[type](thread, message as never, context)
          if (answer !== undefined && 'rejected' in answer) throw new Error(JSON.stringify(answer))
        }
        if (said.length > 0) await commit(thread, said, nowMs)
      }
    },
    close: () => log.close(),
  }
}
