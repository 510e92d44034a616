/**
 * Interface of the event log: the durable, ordered source of truth of the markets, stored in partitions. The log
 * returns events exactly as they were appended, and never returns data with a wrong checksum. The only field of an
 * event that the log itself reads is the market id.
 *
 * A caller opens a partition. Then it calls append, read, closedOrders, tradeStatuses, snapshot, forget, truncate and
 * sweep in any order. After a failed append, it must call `reopen`, read the records that are durable, and continue
 * from there.
 */

import type { Address, MarketId, OrderHash, Sequence, TradeId } from '#domain/ids.ts'
import type { OrderCloseReason } from '#domain/market-event.ts'
import type { Price, Shares } from '#domain/money.ts'
import type { Outcome, Side } from '#domain/order.ts'
import type { TradeStatus } from '#domain/trade.ts'
import type { JsonBytes } from './json-bytes.ts'

/** The fields that every event of a log has. All other fields are plain JSON data. */
export type LogEvent = {
  readonly type: string
  readonly marketId: MarketId
  readonly seq: Sequence
}

export type LogRecord<Event extends LogEvent> = {
  /** Offset in the partition, from 1 without gaps. */
  readonly offset: number
  readonly event: Event
}

/** An order that is no longer open, with everything needed to answer later requests for its hash. */
export type ClosedOrder = {
  readonly orderHash: OrderHash
  readonly marketId: MarketId
  readonly trader: Address
  readonly side: Side
  readonly outcome: Outcome
  readonly price: Price
  /** For a `taken` order (matched without ever resting): the quantity that was filled. */
  readonly size: Shares
  readonly reason: OrderCloseReason
  /** Parts of the first answer to the order: the number of matched counter-orders, and the time of placement. */
  readonly matches: number
  readonly placedAtMs: number
  readonly expiresAtSec: number
  /** Unix second after which the order's hash may be forgotten, because the order has expired by then. */
  readonly forgetAfterSec: number
}

/** Last reported outcome of a trade. */
export type TradeState = {
  readonly tradeId: TradeId
  readonly status: TradeStatus
  readonly txHash: string
  readonly atMs: number
}

/** Encoding of events in a row of the log; the default is plain JSON. */
export type EventForm<Event extends LogEvent> = {
  /**
   * Writes an event as JSON. `before` is the previous event of the row. Values that equal those of `before` may be left
   * out.
   */
  write(event: Event, before: Event | undefined, into: JsonBytes): void
  /** Returns the events of a whole row from its parsed JSON. */
  read(row: readonly unknown[]): Event[]
}

/** Data that becomes durable together, or not at all. */
export type LogBatch<Event extends LogEvent> = {
  readonly events: readonly Event[]
  /** Time of the batch by the owner's clock. The partition keeps the latest time of all batches. */
  readonly nowMs: number
  readonly closed?: readonly ClosedOrder[]
  /** Closed orders that are open again after one of their trades failed. */
  readonly reopened?: readonly OrderHash[]
  readonly trades?: readonly TradeState[]
  /** True to return the encoded rows too, for a caller that forwards the events. */
  readonly wantsRows?: true
  /** A few small values that the owner stores with the partition. */
  readonly meta?: Readonly<Record<string, string>>
}

/**
 * A row of the log: the events that one append made durable, or some of the events of a large append. A row never
 * changes.
 */
export type LogRow = {
  readonly first: number
  readonly count: number
  /** The events in the current form: a JSON array with one event per line. */
  readonly payload: Buffer
}

/** Offsets that an append made durable. If the append had no events, `lastOffset` is `firstOffset` − 1. */
export type Appended = {
  readonly firstOffset: number
  readonly lastOffset: number
  /** The encoded events, as one JSON array per row. Empty if `wantsRows` was not set. */
  readonly rows: readonly Uint8Array[]
}

export type PartitionState = {
  readonly partition: number
  /** Oldest offset that can be read; `lastOffset` + 1 in an empty partition. */
  readonly firstOffset: number
  readonly lastOffset: number
  /** Latest `nowMs` of any batch; 0 before the first batch. */
  readonly lastMs: number
  readonly meta: Readonly<Record<string, string>>
}

export type SnapshotMeta = {
  readonly marketId: MarketId
  /** The snapshot includes every event of the market up to and including this offset. */
  readonly atOffset: number
  readonly seq: Sequence
  readonly chunks: number
}

export type Snapshot = { readonly meta: SnapshotMeta; readonly chunks: Iterable<Buffer> }

/** Maximum size of a snapshot chunk. */
export const CHUNK_BYTES_MAX = 128 * 1024

/**
 * Writes one snapshot in small steps that never block on the disk. After a failure the next call throws
 * `LOG_SNAPSHOT_FAILED`.
 */
export type SnapshotWriter = {
  /**
   * Returns false while the disk is still writing earlier chunks. The caller should then wait before it
   * writes the next chunk.
   */
  isReady(): boolean
  /** Writes one chunk from these parts, which are copied. */
  writeChunk(...parts: Uint8Array[]): void
  /** Resolves when the snapshot is durable. Readers can see the snapshot only from then on. */
  commit(): Promise<SnapshotMeta>
  abort(): void
}

export type Forgotten = {
  readonly forgotten: number
  /** True if the step reached the end of the table, so that all rows have been searched. */
  readonly passed: boolean
  /** True if the step stopped at the limit, so that there may be more to forget. */
  readonly more: boolean
}

export type Truncated = {
  readonly firstOffset: number
  readonly removed: number
  /** True if another call with the same arguments can remove more records. */
  readonly more: boolean
}

/** The lowest offset that a market still needs, and the id of this market. */
export type TruncationFloor = { readonly offset: number; readonly marketId?: MarketId }

export interface LogReader<Event extends LogEvent> {
  /** Random id of the log, made when its folder is created. */
  readonly id: string
  readonly partitions: number
  /**
   * Returns up to `limit` records from `fromOffset`; none if `fromOffset` is the offset that the next event gets.
   * Throws if the log no longer has `fromOffset`.
   */
  read(partition: number, fromOffset: number, limit: number): LogRecord<Event>[]
  /** Returns the oldest readable offset; in an empty partition, the offset that the next event gets. */
  firstOffset(partition: number): number
  lastOffset(partition: number): number
  close(): Promise<void>
}

/** Reads whole rows of the log, for callers that must know which events became durable together. */
export interface RowReader {
  /** Returns whole rows with about `limit` events. A row must begin at `fromOffset`. */
  readRows(partition: number, fromOffset: number, limit: number): LogRow[]
}

/** Archived records, which stay readable after the log has deleted them. */
export interface LogArchive<Event extends LogEvent> {
  /** Returns the ranges of archived offsets of a partition, in order. A range has no gaps. */
  spans(partition: number): { readonly first: number; readonly last: number }[]
  /**
   * Returns up to `limit` records from `fromOffset` on. Returns an empty array only if the archive does not have
   * `fromOffset`.
   */
  read(partition: number, fromOffset: number, limit: number): LogRecord<Event>[]
  /**
   * Returns whole rows from `fromOffset` on, at most to the end of the block in the archive file that contains
   * `fromOffset`. Returns an empty array only if the archive does not have `fromOffset`.
   */
  readRows(partition: number, fromOffset: number): LogRow[]
}

export interface EventLog<Event extends LogEvent> extends LogReader<Event> {
  /** Partitions that this log may write. */
  readonly owned: readonly number[]
  state(partition: number): PartitionState

  /**
   * Resolves when the batch is durable; rejects with `LOG_APPEND_FAILED` if it is unknown whether the batch is durable.
   */
  append(partition: number, batch: LogBatch<Event>): Promise<Appended>
  /**
   * Returns the partitions of this log that another owner has taken over. Rejects if the server does not answer. A log
   * in files does not have this method, because its locks exclude other processes.
   */
  readonly takenOver?: () => Promise<readonly number[]>
  /** Opens the file again after a failed append. The returned state shows whether the append is durable. */
  reopen(partition: number): PartitionState

  closedOrders(partition: number, hashes: readonly OrderHash[]): (ClosedOrder | undefined)[]
  /**
   * Returns how many more closed orders fit into the table. At 0 or below, the owner must accept no new orders. The
   * table fills up only if the disk has no space for runs (sorted files of closed orders).
   */
  closedOrderRoom(partition: number): number
  /**
   * Forgets old closed orders, in one bounded step. The step reads at most `limit` rows, and stops after it has found a
   * few thousand orders to forget. If the table has many orders, the step also starts a job in another thread, which
   * moves orders into runs (sorted files) and merges runs. If this job fails, a later step throws `LOG_MERGE_FAILED`,
   * and further steps start the job again.
   */
  forgetClosed(partition: number, nowSec: number, limit: number): Forgotten
  tradeStatuses(partition: number, tradeIds: readonly TradeId[]): (TradeState | undefined)[]

  beginSnapshot(
    partition: number,
    marketId: MarketId,
    atOffset: number,
    seq: Sequence,
  ): SnapshotWriter
  snapshots(partition: number): SnapshotMeta[]
  readSnapshot(partition: number, marketId: MarketId): Snapshot | undefined

  truncationFloor(partition: number): TruncationFloor
  /**
   * Removes whole batches below `belowOffset`, at most about `limit` records. Keeps the last batch, and batches that
   * the projector has not read or that a market still needs.
   *
   * If the log has an archive, removes only archived batches. Another thread archives the remaining batches, and a
   * later call removes them. If archiving fails, a call throws `LOG_ARCHIVE_FAILED`, and a later call retries.
   */
  truncate(
    partition: number,
    belowOffset: number,
    projectedOffset: number,
    limit: number,
  ): Truncated
  /** Removes the snapshot of a market that has ended; the market no longer prevents truncation. */
  retireMarket(partition: number, marketId: MarketId): void
  /** Removes up to `limit` rows with trade statuses of retired markets; returns how many. */
  sweep(partition: number, limit: number): number
}
