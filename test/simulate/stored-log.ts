/**
 * Data that survives a crash: the rows of each partition, and each node's copy of them with its snapshots. With a log
 * in files there is one copy. The code of the real log encodes and decodes the rows.
 */

import assert from 'node:assert/strict'
import { Fault } from '#domain/fault.ts'
import type { MarketId, OrderHash, TradeId } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import type {
  ClosedOrder,
  LogBatch,
  LogReader,
  LogRecord,
  PartitionState,
  SnapshotMeta,
  TradeState,
  Truncated,
  TruncationFloor,
} from '#log/event-log.ts'
import { PACKED, readRows } from '#log/packed-event.ts'
import { BatchEncoder } from '#log/partition/record.ts'

/** A batch as the log keeps it. */
export type StoredRow = {
  readonly first: number
  readonly count: number
  readonly payloads: readonly Uint8Array[]
  readonly batch: Omit<LogBatch<MarketEvent>, 'events'>
}

const LOG_ID = 'simulated'

export function encodeRow(
  partition: number,
  first: number,
  batch: LogBatch<MarketEvent>,
): StoredRow {
  const payloads: Uint8Array[] = []
  new BatchEncoder().encode(
    { home: { logId: LOG_ID, partition }, firstOffset: first },
    batch.events,
    PACKED,
    ({ payload }) => void payloads.push(new Uint8Array(payload)),
  )
  const { events, ...rest } = batch
  return { first, count: events.length, payloads, batch: structuredClone(rest) }
}

/** Decodes the events of a row, once. */
export function eventsOf(row: StoredRow): readonly MarketEvent[] {
  let events = decoded.get(row)
  if (events === undefined) {
    events = readRows(row.payloads)
    decoded.set(row, events)
  }
  return events
}

const decoded = new WeakMap<StoredRow, readonly MarketEvent[]>()

type Landed = (partition: number, events: readonly MarketEvent[]) => void

/** The authoritative rows of a partition. They are never removed here, so an oracle can read them all. */
export class StoredPartition {
  readonly partition: number
  readonly rows: StoredRow[] = []
  epoch = 0
  /** With a log in files: the only copy of the partition, from which the writer removes old rows. */
  file: PartitionCopy | undefined
  /** Called with the events of each row that becomes durable. */
  readonly #landed: Landed

  constructor(partition: number, landed: Landed) {
    this.partition = partition
    this.#landed = landed
  }

  get lastOffset(): number {
    const last = this.rows.at(-1)
    return last === undefined ? 0 : last.first + last.count - 1
  }

  /** Returns the row that contains this offset, and all later rows. */
  rowsFrom(offset: number): StoredRow[] {
    let [low, high] = [0, this.rows.length]
    while (low < high) {
      const middle = (low + high) >> 1
      const { first, count } = this.rows[middle]!
      if (first + count <= offset) low = middle + 1
      else high = middle
    }
    return this.rows.slice(low)
  }

  /**
   * Stores a row that the owner with this epoch appends. Returns false if the epoch is no longer current, or if the row
   * is not the next one.
   */
  store(row: StoredRow, epoch: number): boolean {
    if (epoch !== this.epoch || row.first !== this.lastOffset + 1) return false
    this.rows.push(row)
    this.#landed(this.partition, eventsOf(row))
    return true
  }
}

/** A node's copy of one partition: tables, snapshots, and the rows that are not truncated. */
export class PartitionCopy {
  readonly #truth: StoredPartition
  #rows = 0
  #firstRow = 0
  #lastOffset = 0
  #firstOffset = 1
  #lastMs = 0
  #meta: Record<string, string> = {}
  readonly closed = new Map<OrderHash, ClosedOrder>()
  readonly trades = new Map<TradeId, TradeState>()
  readonly #markets = new Map<MarketId, number>()
  readonly snapshots = new Map<MarketId, { meta: SnapshotMeta; chunks: readonly Buffer[] }>()

  constructor(truth: StoredPartition) {
    this.#truth = truth
  }

  get state(): PartitionState {
    return {
      partition: this.#truth.partition,
      firstOffset: this.#firstOffset,
      lastOffset: this.#lastOffset,
      lastMs: this.#lastMs,
      meta: this.#meta,
    }
  }

  /** Applies to this copy the stored rows that it lacks, up to this offset. */
  follow(untilOffset = Number.POSITIVE_INFINITY): void {
    for (;;) {
      const row = this.#truth.rows[this.#rows]
      if (row === undefined || row.first > untilOffset) break
      this.#apply(row)
    }
  }

  #apply(row: StoredRow): void {
    assert.equal(row.first, this.#lastOffset + 1)
    this.#rows++
    const { batch } = row
    for (const [at, { marketId }] of eventsOf(row).entries()) {
      if (!this.#markets.has(marketId)) this.#markets.set(marketId, row.first + at)
    }
    for (const orderHash of batch.reopened ?? []) this.closed.delete(orderHash)
    for (const order of batch.closed ?? []) this.closed.set(order.orderHash, order)
    for (const trade of batch.trades ?? []) this.trades.set(trade.tradeId, trade)
    this.#lastOffset = row.first + row.count - 1
    this.#lastMs = Math.max(this.#lastMs, batch.nowMs)
    this.#meta = { ...this.#meta, ...batch.meta }
  }

  read(fromOffset: number, limit: number): LogRecord<MarketEvent>[] {
    assert(fromOffset >= this.#firstOffset, `offset ${fromOffset} has left the log`)
    const records: LogRecord<MarketEvent>[] = []
    for (let at = this.#firstRow; at < this.#rows && records.length < limit; at++) {
      const row = this.#truth.rows[at]!
      if (row.first + row.count <= fromOffset) continue
      for (const [index, event] of eventsOf(row).entries()) {
        const offset = row.first + index
        if (offset >= fromOffset && records.length < limit) records.push({ offset, event })
      }
    }
    return records
  }

  forget(nowSec: number): number {
    let forgotten = 0
    for (const [orderHash, { forgetAfterSec }] of this.closed) {
      if (forgetAfterSec >= nowSec) continue
      this.closed.delete(orderHash)
      forgotten++
    }
    return forgotten
  }

  get floor(): TruncationFloor {
    let floor: TruncationFloor = { offset: this.#lastOffset + 1 }
    for (const [marketId, first] of this.#markets) {
      const snapshot = this.snapshots.get(marketId)
      const offset = snapshot === undefined ? first : snapshot.meta.atOffset + 1
      if (offset < floor.offset) floor = { offset, marketId }
    }
    return floor
  }

  truncate(belowOffset: number, projectedOffset: number): Truncated {
    const below = Math.min(belowOffset, projectedOffset + 1, this.floor.offset)
    const before = this.#firstOffset
    while (this.#firstRow < this.#rows) {
      const { first, count } = this.#truth.rows[this.#firstRow]!
      const next = first + count
      if (next > below || next > this.#lastOffset) break
      this.#firstRow++
      this.#firstOffset = next
    }
    return { firstOffset: this.#firstOffset, removed: this.#firstOffset - before, more: false }
  }

  has(marketId: MarketId): boolean {
    return this.#markets.has(marketId)
  }

  retire(marketId: MarketId): void {
    this.#markets.delete(marketId)
    this.snapshots.delete(marketId)
    for (const tradeId of this.trades.keys()) {
      if (tradeId.startsWith(marketId)) this.trades.delete(tradeId)
    }
  }
}

/**
 * Makes a reader that reads the log while a writer appends to it. Like the real reader, it refuses an offset that was
 * removed from a log in files.
 */
export function logReaderOf(truth: readonly StoredPartition[]): LogReader<MarketEvent> {
  return {
    id: 'simulated',
    partitions: truth.length,
    read(partition, fromOffset, limit) {
      const stored = truth[partition]!
      const { file } = stored
      if (file !== undefined) {
        const { firstOffset } = file.state
        if (fromOffset < firstOffset) {
          const why = `partition ${partition} begins at offset ${firstOffset}, not ${fromOffset}`
          throw new Fault('LOG_TRUNCATED', why, { retryable: false })
        }
        return file.read(fromOffset, limit)
      }
      const records: ReturnType<LogReader<MarketEvent>['read']>[number][] = []
      for (const row of stored.rowsFrom(fromOffset)) {
        for (const [index, event] of eventsOf(row).entries()) {
          const offset = row.first + index
          if (offset >= fromOffset && records.length < limit) records.push({ offset, event })
        }
        if (records.length >= limit) break
      }
      return records
    },
    firstOffset: (partition) => truth[partition]!.file?.state.firstOffset ?? 1,
    lastOffset: (partition) => truth[partition]!.lastOffset,
    close: async () => {},
  }
}
