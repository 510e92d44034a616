/**
 * Hosts markets as a market thread does, but without the thread: on a real log in its own folder, with
 * commands given batch by batch. The host can be stopped and started again on the same folder, as a process
 * would be.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { partitionOf } from '#config/topology.ts'
import type { MarketId } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { OUTCOMES } from '#domain/order.ts'
import type { EventLog } from '#log/event-log.ts'
import { PACKED } from '#log/packed-event.ts'
import { openSqliteLog, type SqliteLogOptions } from '#log/partition/sqlite-log.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import type { Message } from '#runtime/actor.ts'
import type { CancelQuota } from '#services/market/host/cancel-quota.ts'
import { housekeep, tidy } from '#services/market/host/housekeeping.ts'
import { commit, prepare } from '#services/market/host/market-batch.ts'
import {
  type MarketThread,
  marketThread,
  newMarketThread,
  recover,
} from '#services/market/host/market-host.ts'
import { watchProjection } from '#services/market/host/projection-lag.ts'
import type { Retention } from '#services/market/host/retention.ts'
import type { RiskRules } from '#services/market/state.ts'
import { aMarket, START_SEC } from './market-fixture.ts'
import { stateHashOf } from './state-hash.ts'

export type Command = Message<MarketThreadProtocol>

type Log = EventLog<MarketEvent>

export type HostOptions = Partial<SqliteLogOptions> & {
  /** Wraps the log before the host gets it. */
  readonly between?: (log: Log) => Log
  readonly snapshotEvery?: number
  readonly nowMs?: number
  readonly pins?: Readonly<Record<string, number>>
  /** Maximum lag of the database, for markets of every chain. */
  readonly lagMsMax?: number
  readonly risk?: RiskRules
  readonly cancelQuota?: CancelQuota
  readonly retention?: Retention
  readonly room?: { readonly isFull: boolean }
}

/** Runs a test with a data folder, which is removed afterwards. */
export function inFolder(name: string, body: (dataDir: string, t: TestContext) => Promise<void>) {
  test(name, async (t) => {
    const dataDir = mkdtempSync(join(tmpdir(), 'sibyl-actors-'))
    try {
      await body(dataDir, t)
    } finally {
      rmSync(dataDir, { recursive: true, force: true })
    }
  })
}

export const marketId = (n: number): MarketId => `0x${n.toString(16).padStart(64, '0')}` as MarketId

export const open = (n: number, more = {}): Command => ({
  type: 'OpenMarket',
  message: { market: aMarket({ id: marketId(n), ...more }) },
})

export function startHost(dataDir: string, options: HostOptions = {}) {
  const partitions = options.partitions ?? 2
  const { snapshotEvery = 1_000_000, nowMs: fromMs = START_SEC * 1_000, ...rest } = options
  const { lagMsMax, risk, ...log } = rest
  const { between = (own: Log) => own } = options
  const topology = { partitions, marketThreads: 1, pins: options.pins ?? {} }
  const own = openSqliteLog({
    form: PACKED,
    dataDir,
    partitions,
    own: Array.from({ length: partitions }, (_, partition) => partition),
    checkpointThread: false,
    ...log,
  })
  const events = between(own)
  const thread: MarketThread = newMarketThread({
    log: events,
    partitionOf: (id) => partitionOf(id, topology),
    rules: { selfTrade: 'allow', ...(risk === undefined ? {} : { risk }) },
    ordersMax: 100_000,
    seed: 7,
    snapshotEvery,
    monotonicMs: () => nowMs,
    ...(options.room === undefined ? {} : { room: options.room }),
    ...(options.retention === undefined ? {} : { retention: options.retention }),
    ...(options.cancelQuota === undefined ? {} : { cancelQuota: options.cancelQuota }),
    ...(lagMsMax === undefined ? {} : { lag: { maxMs: lagMsMax, chains: { has: () => true } } }),
  })
  let nowMs = fromMs
  let said: MarketEvent[] = []

  return {
    thread,
    log: events,
    /** Moves the clock to this many seconds after the start. */
    at(seconds: number) {
      nowMs = (START_SEC + seconds) * 1_000
    },
    /** Handles one batch and appends its events; returns the answers. Throws if the append fails. */
    async run(...batch: Command[]): Promise<unknown[]> {
      prepare(thread, batch)
      said = []
      const context = {
        nowMs,
        emit: (event: MarketEvent) => void said.push(event),
        pipe: never,
        after: never,
        defer: never,
        answer: never,
      }
      const answers = batch.map(({ type, message }) =>
        marketThread[type](thread, message as never, context),
      )
      if (said.length > 0) await commit(thread, said, nowMs)
      return answers
    },
    get said() {
      return said
    },
    get nowMs() {
      return nowMs
    },
    recover: (partition = 0) => recover(thread, partition),
    /** Runs the housekeeping until nothing is left to do; returns the number of steps. */
    async keepHouse(): Promise<number> {
      let steps = 1
      for (; housekeep(thread); steps++) await new Promise((resolve) => setImmediate(resolve))
      return steps
    },
    tidy: () => tidy(thread),
    watchProjection: () => watchProjection(thread, nowMs),
    hashes(): Record<string, string> {
      const hashes: Record<string, string> = {}
      for (const [id, { state }] of thread.markets) hashes[id] = stateHashOf(state)
      return hashes
    },
    resting(): number {
      let count = 0
      for (const { state } of thread.markets.values()) {
        for (const outcome of OUTCOMES) count += state.books[outcome].count
      }
      return count
    },
    stop: () => own.close(),
  }
}

function never(): never {
  throw new Error('a market needs none of this')
}
