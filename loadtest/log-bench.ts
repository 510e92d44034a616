/**
 * Measures the cost of a durable record: appends of 1, 16, 64 and 512 real market events through the event log. Each
 * append also records a closed order for every second event. In the same run, the rate is compared with that of bare
 * better-sqlite3 inserts on the same disk, with one commit per row. It also measures an alternative design with one row
 * per record, which the log does not use. Finally it measures the pauses caused by checkpoints, the read speed, and the
 * cost of looking up order hashes that the log has never seen.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import Database from 'better-sqlite3'
import type { Address, MarketId, OrderHash } from '#domain/ids.ts'
import type { MarketEvent, OrderRested } from '#domain/market-event.ts'
import type { Price, Shares } from '#domain/money.ts'
import type { ClosedOrder, EventLog } from '#log/event-log.ts'
import { openLogReader } from '#log/log-reader.ts'
import { openSqliteLog } from '#log/partition/sqlite-log.ts'
import { randomFrom } from '../test/support/random.ts'
import { median, quick, report, runBench } from './bench.ts'
import { Histogram } from './histogram.ts'

const ROUND_MS = quick ? 400 : 1_500
const BATCHES = [1, 16, 64, 512] as const
const random = randomFrom(1)
const folder = mkdtempSync(join(tmpdir(), 'sibyl-log-bench-'))
const marketId = random.hex(32) as MarketId
const events = Array.from({ length: 4_096 }, (_, index) => restedOrder(index + 1))
const closed = Array.from({ length: 4_096 }, () => closedOrder())

const log = openSqliteLog<MarketEvent>({ dataDir: folder, partitions: 1, own: [0] })
const bare = open(join(folder, 'bare.db'), 'CREATE TABLE rows (id INTEGER PRIMARY KEY, value TEXT)')
const perRecord = open(
  join(folder, 'per-record.db'),
  'CREATE TABLE records (id INTEGER PRIMARY KEY, seq INTEGER, market_id TEXT, version INTEGER, crc INTEGER, payload BLOB)',
)
const insertBare = bare.prepare('INSERT INTO rows (value) VALUES (?)')
const insertRecord = perRecord.prepare('INSERT INTO records VALUES (NULL, ?, ?, ?, ?, ?)')

try {
  const result = await measure()
  report(result)
} finally {
  await log.close()
  bare.close()
  perRecord.close()
  rmSync(folder, { recursive: true, force: true })
}

async function measure() {
  const costs = new Map<string, number[]>()
  const pauses: number[] = []
  const note = (name: string, us: number) => costs.set(name, [...(costs.get(name) ?? []), us])
  const result = await runBench({
    bench: 'log',
    unit: 'records/s',
    peer: 'bare better-sqlite3 inserts, one row and one commit each',
    bar: 5,
    rounds: quick ? 3 : 5,
    ours: async ({ warmup }) => {
      let best = 0
      for (const size of BATCHES) {
        const each = await appends(size)
        const us = median(each) * 1_000
        best = (size * each.length * 1_000) / each.reduce((sum, ms) => sum + ms, 0)
        if (warmup) continue
        note(`log, ${size}`, us)
        note(`log, ${size}, records/s`, best)
        pauses.push(...each)
      }
      return best
    },
    theirs: ({ warmup }) => {
      for (const size of BATCHES) {
        const us = median(rowPerRecord(size)) * 1_000
        if (!warmup) note(`row per record, ${size}`, us)
      }
      const each = bareInserts()
      if (!warmup) note('bare', median(each) * 1_000)
      return (each.length * 1_000) / each.reduce((sum, ms) => sum + ms, 0)
    },
  })
  const us = (name: string) => median(costs.get(name) ?? [])
  print(`bare insert and commit: ${us('bare').toFixed(0)} µs`)
  for (const size of BATCHES) {
    const log = us(`log, ${size}`)
    const rows = us(`row per record, ${size}`)
    print(
      `batch of ${`${size}`.padStart(3)}: commit ${log.toFixed(0)} µs ` +
        `(${(log / us('bare')).toFixed(1)} bare commits), ${(log / size).toFixed(2)} µs a record, ` +
        `${us(`log, ${size}, records/s`).toFixed(0)} records/s; ` +
        `a row per record: ${rows.toFixed(0)} µs`,
    )
  }
  const all = Histogram.of(pauses)
  const ms = [0.5, 0.99, 0.999, 1].map((q) => all.quantileMs(q).toFixed(2)).join(', ')
  print(`append p50, p99, p99.9, longest: ${ms} ms, checkpoints and their disk included`)
  print(`read: ${readSpeed().toFixed(0)} records/s`)
  for (const count of quick ? [100_000] : [100_000, 1_000_000]) await closedCosts(count)
  return result
}

async function appends(size: number): Promise<number[]> {
  const each: number[] = []
  const end = performance.now() + ROUND_MS / BATCHES.length
  for (let at = 0; performance.now() < end; at = (at + size) % events.length) {
    const batch = events.slice(at, at + size)
    const orders = closed.slice(0, size >> 1).map((order) => ({ ...order, orderHash: freshHash() }))
    const start = performance.now()
    await log.append(0, { events: batch, nowMs: 1, closed: orders })
    each.push(performance.now() - start)
  }
  return each
}

function rowPerRecord(size: number): number[] {
  const each: number[] = []
  const end = performance.now() + ROUND_MS / BATCHES.length / 2
  for (let at = 0; performance.now() < end; at = (at + size) % events.length) {
    const start = performance.now()
    perRecord.transaction(() => {
      for (const event of events.slice(at, at + size)) {
        const payload = Buffer.from(JSON.stringify(event))
        insertRecord.run(event.seq, event.marketId, 1, crc32(payload), payload)
      }
    })()
    each.push(performance.now() - start)
  }
  return each
}

function bareInserts(): number[] {
  const each: number[] = []
  const end = performance.now() + ROUND_MS / 2
  while (performance.now() < end) {
    const start = performance.now()
    insertBare.run('x')
    each.push(performance.now() - start)
  }
  return each
}

function readSpeed(): number {
  const reader = openLogReader<MarketEvent>(folder)
  const last = Math.min(reader.lastOffset(0), quick ? 50_000 : 200_000)
  const start = performance.now()
  let read = 0
  while (read < last) read += reader.read(0, read + 1, 2_000).length
  const ms = performance.now() - start
  void reader.close()
  return (read * 1_000) / ms
}

/** Fills a log with closed orders, then looks up hashes that it has never seen, and known ones. */
async function closedCosts(count: number): Promise<void> {
  const dataDir = join(folder, `closed-${count}`)
  const options = { dataDir, partitions: 1, own: [0] } as const
  const filled = openSqliteLog<MarketEvent>(options)
  const some: OrderHash[] = []
  for (let from = 0; from < count; from += 250) {
    const orders = closed.slice(0, 250).map((order) => ({ ...order, orderHash: freshHash() }))
    some.push(orders[0]!.orderHash)
    await filled.append(0, { events: events.slice(0, 1), nowMs: 1, closed: orders })
    if (from % 5_000 === 0) await keepClosed(filled)
  }
  const each = await timed(2_000, async () => {
    const orders = closed.slice(0, 250).map((order) => ({ ...order, orderHash: freshHash() }))
    const start = performance.now()
    await filled.append(0, { events: events.slice(0, 1), nowMs: 1, closed: orders })
    return performance.now() - start
  })
  const unseen = Array.from({ length: 100_000 }, freshHash)
  let start = performance.now()
  filled.closedOrders(0, unseen)
  const missUs = ((performance.now() - start) * 1_000) / unseen.length
  const seen = some.slice(0, 1_000)
  start = performance.now()
  filled.closedOrders(0, seen)
  const hitUs = ((performance.now() - start) * 1_000) / seen.length
  await filled.close()
  start = performance.now()
  const again = openSqliteLog<MarketEvent>(options)
  const openMs = performance.now() - start
  await again.close()
  print(
    `${count} closed orders: ${((median(each) * 1_000) / 250).toFixed(2)} µs to add one of 250, ` +
      `${missUs.toFixed(2)} µs to look up an unseen one, ${hitUs.toFixed(0)} µs a seen one, ` +
      `${openMs.toFixed(0)} ms to open`,
  )
}

/**
 * Moves closed orders from the table into files, if the table has too many, as a market thread does between batches.
 */
async function keepClosed(filled: EventLog<MarketEvent>): Promise<void> {
  while (filled.forgetClosed(0, 1, 2_000).more);
  await new Promise(setImmediate)
}

async function timed(forMs: number, run: () => Promise<number>): Promise<number[]> {
  const each: number[] = []
  const end = performance.now() + (quick ? forMs / 4 : forMs)
  while (performance.now() < end) each.push(await run())
  return each
}

function open(path: string, table: string): Database.Database {
  const db = new Database(path)
  db.pragma('journal_mode = WAL')
  db.pragma('synchronous = FULL')
  db.exec(table)
  return db
}

function freshHash(): OrderHash {
  return random.hex(32) as OrderHash
}

function closedOrder(): ClosedOrder {
  return {
    orderHash: freshHash(),
    marketId,
    trader: random.hex(20) as Address,
    side: 0,
    outcome: 1,
    price: 420_000 as Price,
    size: 1_000_000 as Shares,
    reason: 'cancelled',
    matches: 0,
    placedAtMs: 1_790_000_000_000,
    expiresAtSec: 1_799_999_999,
    forgetAfterSec: 1_799_999_999,
  }
}

function restedOrder(seq: number): OrderRested {
  const trader = random.hex(20) as Address
  const orderHash = freshHash()
  const values = {
    side: 0,
    outcome: 1,
    price: 420_000 as Price,
    size: 1_000_000 as Shares,
  } as const
  return {
    type: 'OrderRested',
    marketId,
    seq,
    atMs: 1_790_000_000_000 + seq,
    orderHash,
    trader,
    ...values,
    added: values.size,
    remaining: values.size,
    expiresAtSec: 1_799_999_999,
    placedAtMs: 1_790_000_000_000 + seq,
    matches: 0,
    order: {
      marketId,
      trader,
      ...values,
      nonce: `${seq}`,
      expiration: '1799999999',
      makerFeeRecipient: `0x${'0'.repeat(40)}`,
      orderHash,
      signature: random.hex(65),
    } as OrderRested['order'] & object,
  }
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
