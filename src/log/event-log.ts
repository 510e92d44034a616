/**
 * The event log as the rest of Sibyl sees it: the durable, ordered truth of the markets, kept in
 * partitions. It stores what it is given and gives it back exactly; it never interprets an event
 * beyond its market id, and it never answers with anything whose checksum does not fit.
 *
 * The life of a partition, as a grammar:
 *   open, *[append | read | closedOrders | tradeStatuses | snapshot | forget | truncate | sweep],
 *   and after a failed append: reopen, read what is durable, go on.
 */

import type { Address, MarketId, OrderHash, Sequence, TradeId } from '#domain/ids.ts'
import type { OrderCloseReason } from '#domain/market-event.ts'
import type { Price, Shares } from '#domain/money.ts'
import type { Outcome, Side } from '#domain/order.ts'
import type { TradeStatus } from '#domain/trade.ts'
import type { JsonBytes } from './json-bytes.ts'

/** What the log must know about an event; the rest is plain JSON data that it only carries. */
export type LogEvent = {
  readonly type: string
  readonly marketId: MarketId
  readonly seq: Sequence
}

export type LogRecord<Event extends LogEvent> = {
  /** The partition's gapless offset, from 1. */
  readonly offset: number
  readonly event: Event
}

/** An order that is no longer open, with all that a later question about its hash needs. */
export type ClosedOrder = {
  readonly orderHash: OrderHash
  readonly marketId: MarketId
  readonly trader: Address
  readonly side: Side
  readonly outcome: Outcome
  readonly price: Price
  /** Of one that was `taken`, what of it was filled at once. */
  readonly size: Shares
  readonly reason: OrderCloseReason
  /** Its first answer: how many counter-orders it matched, and when it was placed. */
  readonly matches: number
  readonly placedAtMs: number
  readonly expiresAtSec: number
  /** From the second after this one on, the hash cannot be placed anyway and may be forgotten. */
  readonly forgetAfterSec: number
}

/** The last outcome of a trade that was reported and logged. */
export type TradeState = {
  readonly tradeId: TradeId
  readonly status: TradeStatus
  readonly txHash: string
  readonly atMs: number
}

/** How events lie in a row of the log; without one, each lies there as the JSON that it is. */
export type EventForm<Event extends LogEvent> = {
  /** Writes an event as JSON. `before` is the one before it in the row, for what both say. */
  write(event: Event, before: Event | undefined, into: JsonBytes): void
  /** The events of a whole row, from what its JSON says. */
  read(row: readonly unknown[]): Event[]
}

/** What becomes durable together, or not at all. */
export type LogBatch<Event extends LogEvent> = {
  readonly events: readonly Event[]
  /** The clock of the batch; the partition keeps the highest it has seen. */
  readonly nowMs: number
  readonly closed?: readonly ClosedOrder[]
  /** Orders that were closed and are open again, after a trade of theirs failed. */
  readonly reopened?: readonly OrderHash[]
  readonly trades?: readonly TradeState[]
  /** Answers the bytes too, for a caller that passes the events on. */
  readonly wantsRows?: true
  /** A few small values of the owner, kept with the partition. */
  readonly meta?: Readonly<Record<string, string>>
}

/** The offsets that an append made durable; of an append without events, `last` is `first` − 1. */
export type Appended = {
  readonly firstOffset: number
  readonly lastOffset: number
  /** The events as they lie in the log, each row a JSON array, if the batch wanted them. */
  readonly rows: readonly Uint8Array[]
}

export type PartitionState = {
  readonly partition: number
  /** The oldest offset that can still be read; `lastOffset` + 1 in an empty partition. */
  readonly firstOffset: number
  readonly lastOffset: number
  /** The highest clock of any batch; 0 before the first. */
  readonly lastMs: number
  readonly meta: Readonly<Record<string, string>>
}

export type SnapshotMeta = {
  readonly marketId: MarketId
  /** It holds the effect of every event of the market up to and with this offset. */
  readonly atOffset: number
  readonly seq: Sequence
  readonly chunks: number
}

export type Snapshot = { readonly meta: SnapshotMeta; readonly chunks: Iterable<Buffer> }

/** The most that a chunk of a snapshot may hold. */
export const CHUNK_BYTES_MAX = 128 * 1024

/**
 * Writes one snapshot in small steps, none of which waits for the disk. What fails meanwhile, the next
 * call throws: `LOG_SNAPSHOT_FAILED`.
 */
export type SnapshotWriter = {
  /** Whether the disk keeps up; if not, the next chunk should wait a little. */
  isReady(): boolean
  /** One chunk, of all these parts, which are copied. */
  writeChunk(...parts: Uint8Array[]): void
  /** Settles when it is durable and can be read; no reader sees it before. */
  commit(): Promise<SnapshotMeta>
  abort(): void
}

export type Forgotten = {
  readonly forgotten: number
  /** Whether this step reached the end of the table, so that a pass is complete. */
  readonly passed: boolean
  /** Whether it stopped because so much was to be forgotten: there may be more right behind. */
  readonly more: boolean
}

export type Truncated = {
  readonly firstOffset: number
  readonly removed: number
  /** Whether more can be removed with the same arguments. */
  readonly more: boolean
}

/** The lowest offset that some market still needs, and which market that is. */
export type TruncationFloor = { readonly offset: number; readonly marketId?: MarketId }

export interface LogReader<Event extends LogEvent> {
  /** The random name that the log got when its folder was created. */
  readonly id: string
  readonly partitions: number
  /** Up to `limit` records from `fromOffset` on; none when it is the next offset to be written. */
  read(partition: number, fromOffset: number, limit: number): LogRecord<Event>[]
  /** The oldest offset that can be read; the last one + 1 where there is none. */
  firstOffset(partition: number): number
  lastOffset(partition: number): number
  close(): Promise<void>
}

/** What has left a log and was kept. */
export interface LogArchive<Event extends LogEvent> {
  /** The unbroken stretches of offsets that it has of a partition, in order. */
  spans(partition: number): { readonly first: number; readonly last: number }[]
  /** Up to `limit` records from `fromOffset` on; none only where it does not have that one. */
  read(partition: number, fromOffset: number, limit: number): LogRecord<Event>[]
}

export interface EventLog<Event extends LogEvent> extends LogReader<Event> {
  /** The partitions that this log may write. */
  readonly owned: readonly number[]
  state(partition: number): PartitionState

  /** Settles when all of it is durable; rejects with `LOG_APPEND_FAILED` when that is not known. */
  append(partition: number, batch: LogBatch<Event>): Promise<Appended>
  /**
   * Returns the owned partitions that another owner has taken; rejects if the server does not answer. A log in files
   * has no such method: a lock keeps it for one process.
   */
  readonly takenOver?: () => Promise<readonly number[]>
  /** After a failed append: opens the file anew; what it then holds is the truth. */
  reopen(partition: number): PartitionState

  closedOrders(partition: number, hashes: readonly OrderHash[]): (ClosedOrder | undefined)[]
  /**
   * How many more closed orders fit before some have gone into runs; at 0 or below, which only a disk
   * without room for runs brings about, the owner must take no new orders.
   */
  closedOrderRoom(partition: number): number
  /**
   * One bounded step through the closed orders: at most `limit` rows of the table, and only as many
   * as hold a few thousand to forget. It also moves those that are many into runs, and merges runs, with
   * the help of another thread: what fails there is `LOG_MERGE_FAILED` and is tried again.
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
   * Removes whole batches below `belowOffset`, at most about `limit` records in one step. Never
   * above what the projector has passed, what a market still needs, or the last batch; and where the log
   * has an archive, only what is in it already. What is not gets there meanwhile: ask again later. What
   * fails there is `LOG_ARCHIVE_FAILED` and is tried again.
   */
  truncate(
    partition: number,
    belowOffset: number,
    projectedOffset: number,
    limit: number,
  ): Truncated
  /** The market is over for good: its snapshot goes, and it no longer holds truncation back. */
  retireMarket(partition: number, marketId: MarketId): void
  /** Removes up to `limit` rows that belong to nothing any more; returns how many it removed. */
  sweep(partition: number, limit: number): number
}
