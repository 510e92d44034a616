/**
 * Runs a host of markets without an exchange. The host's real log is archived and truncated. Tests project the log into
 * a database, and compare every table that the log fills.
 */

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after } from 'node:test'
import type { OrderHash } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { tradesOf } from '#domain/match-trades.ts'
import type { VerifiedOrder } from '#domain/order.ts'
import { openArchive, wholeLog } from '#log/archive/archive-reader.ts'
import type { LogReader } from '#log/event-log.ts'
import { openLogReader } from '#log/log-reader.ts'
import { PACKED } from '#log/packed-event.ts'
import { derive, withinRows } from '#services/projector/projector.ts'
import { closeDatabase, type Database, read } from '#store/engine/database.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { claimLog } from '#store/projection/checkpoints.ts'
import { endOrders, marketsToEnd } from '#store/projection/end-orders.ts'
import { project } from '#store/projection/project.ts'
import { type OrderStream, orderStream } from '../services/market/order-stream.ts'
import { type Command, type HostOptions, startHost } from '../services/market/thread-fixture.ts'
import { eventually } from '../support/eventually.ts'
import { randomFrom } from '../support/random.ts'

export type Host = ReturnType<typeof startHost>

export const archiveIn = (dataDir: string): string => join(dataDir, 'archive')

/** Starts a host whose log is soon archived and truncated. */
export function startTrading(dataDir: string, more: HostOptions = {}): Host {
  const archive = { dir: archiveIn(dataDir), bytesMax: 0, segmentEventsMin: 40, segmentWaitMs: 0 }
  const host = startHost(dataDir, { partitions: 2, snapshotEvery: 60, archive, ...more })
  const { stop } = host
  let stopped: Promise<void> | undefined
  host.stop = () => {
    stopped ??= stop()
    return stopped
  }
  // The host's threads would keep the process of a failed test alive.
  after(() => host.stop())
  return host
}

export type Trading = {
  readonly stream: OrderStream
  /** Runs this many batches of orders, cancels and reports of trades. */
  trade(host: Host, batches: number): Promise<void>
  /** Every placed order with its answer. */
  readonly placed: Map<OrderHash, { readonly order: VerifiedOrder; readonly answer: unknown }>
}

export function newTrading(seed: number): Trading {
  const random = randomFrom(seed)
  const stream = orderStream(seed, 4)
  const placed: Trading['placed'] = new Map()
  let isOpen = false
  return {
    stream,
    placed,
    async trade(host, batches) {
      if (!isOpen) {
        isOpen = true
        await host.run(
          ...stream.markets.map((market): Command => ({ type: 'OpenMarket', message: { market } })),
        )
      }
      for (let batch = 0; batch < batches; batch++) {
        const asks = stream.take(random.int(1, 12))
        const answers = await host.run(
          ...asks.map(({ ask: [type, message] }) => ({ type, message }) as Command),
        )
        for (const [index, { ask }] of asks.entries()) {
          if (ask[0] !== 'PlaceOrder') continue
          const { order } = ask[1]
          placed.set(order.orderHash, { order, answer: answers[index] })
        }
        const reports = host.said.flatMap((event) => reportsOf(event))
        if (reports.length > 0) await host.run(...reports)
      }
    },
  }

  function reportsOf(event: MarketEvent): Command[] {
    if (event.type !== 'OrdersMatched' || random.chance(0.3)) return []
    return tradesOf(event).map(({ tradeId, size, buyOrderHash, sellOrderHash }) => {
      const status = random.pick(['submitted', 'confirmed', 'failed'] as const)
      const ofHash = (hash: OrderHash) =>
        hash === event.taker.orderHash ? event.taker : placed.get(hash)?.order
      const [buy, sell] = [ofHash(buyOrderHash), ofHash(sellOrderHash)]
      assert(buy !== undefined && sell !== undefined)
      const told = { tradeId, size, buy, sell, status, txHash: '0x01', reason: 'a test' }
      const report = { ...told, fault: random.pick(['buyer', 'seller', 'none'] as const) }
      return { type: 'ReportTrade', message: { marketId: event.marketId, report } } as Command
    })
  }
}

/** Opens the log and its archive for reading, as another process does. */
export function readWhole(dataDir: string): LogReader<MarketEvent> {
  const reader = openLogReader(dataDir, { form: PACKED })
  return wholeLog(reader, openArchive(archiveIn(dataDir), reader, { form: PACKED }))
}

/** Opens and migrates the database at this URL, runs the work, and closes the database. */
export async function withDatabase<Result>(
  url: string,
  work: (database: Database) => Promise<Result>,
): Promise<Result> {
  const database = await openDatabase(url)
  try {
    await migrate(database)
    return await work(database)
  } finally {
    await closeDatabase(database)
  }
}

/** Projects the whole log into a database, as the store does. After that, the log can be archived and truncated. */
export async function projectAll(host: Host, database: Database): Promise<void> {
  const { log } = host
  const known = await claimLog(database, { logId: log.id, partitions: log.partitions })
  for (const { partition, offset } of known) {
    for (let at = offset; at < log.lastOffset(partition); ) {
      const records = log.read(partition, at + 1, 100)
      const events = withinRows(records.map(({ event }) => event))
      at = (await project(database, derive(log.id, partition, at, events))).offset
    }
    await host.run({
      type: 'Projected',
      message: { partition, offset: log.lastOffset(partition) },
    })
  }
  const { marketIds } = await marketsToEnd(database, undefined)
  for (const marketId of marketIds) while (await endOrders(database, marketId)) {}
}

/** Takes snapshots and truncates the log until each partition begins after this offset. */
export async function cut(host: Host, behind = 1): Promise<void> {
  await eventually(async () => {
    host.tidy()
    for (const marketId of host.thread.markets.keys()) host.thread.due.add(marketId)
    await host.keepHouse()
    host.tidy()
    await host.keepHouse()
    for (const partition of host.log.owned) {
      const { firstOffset } = host.log.state(partition)
      assert(firstOffset > behind, `partition ${partition} begins at ${firstOffset}`)
    }
  })
}

const FED = [
  'checkpoints',
  'markets',
  'orders',
  'trades',
  'market_stats',
  'candles',
  'chain_stats',
  'chain_spans',
  'traders',
]

/**
 * Returns every row of every table that the log fills. Row numbers are left out, because on a server they depend on the
 * order of insertion.
 */
export async function tablesOf(database: Database): Promise<Record<string, string[]>> {
  const tables: Record<string, string[]> = {}
  for (const name of FED) {
    const rows = await read(database, (em) =>
      em.getConnection().execute<Record<string, unknown>[]>(`select * from ${name}`),
    )
    tables[name] = rows.map(({ row_no, ...row }) => JSON.stringify(row)).sort()
  }
  return tables
}
