/**
 * The only writer of one partition, which is one SQLite file. This class runs the transactions. It updates its copy of
 * the file's state in memory (state row, tables) only after the transaction has committed. Its tables are in
 * `closed-table.ts`, `trade-table.ts` and `market-table.ts`; the snapshot files are in `snapshot-files.ts`.
 */

import assert from 'node:assert/strict'
import Database from 'better-sqlite3'
import { Fault } from '#domain/fault.ts'
import type { MarketId, OrderHash, TradeId } from '#domain/ids.ts'
import { ArchiveKeeper, type ArchiveOptions } from '../archive/archive-keeper.ts'
import type { ArchiveJob, Segment } from '../archive/archive-writer.ts'
import { ClosedKeeper } from '../closed/closed-keeper.ts'
import type { MergeJob } from '../closed/closed-merge.ts'
import { CLOSED_ORDER_BYTES } from '../closed/closed-order.ts'
import type { RunMeta } from '../closed/closed-run.ts'
import { IndexChanges } from '../closed/closed-table.ts'
import type {
  Appended,
  ClosedOrder,
  Forgotten,
  LogBatch,
  LogEvent,
  LogRecord,
  PartitionState,
  Snapshot,
  SnapshotMeta,
  SnapshotWriter,
  TradeState,
  Truncated,
  TruncationFloor,
} from '../event-log.ts'
import { DurableMark } from './durable-mark.ts'
import type { MarketRow } from './market-table.ts'
import {
  type FileOptions,
  openPartitionFile,
  type PartitionFile,
  rollBack,
  truncationFloor,
  writeState,
} from './partition-file.ts'
import { BatchEncoder, type BatchRow } from './record.ts'
import type { FileState } from './schema.ts'
import { sqliteFault } from './sqlite-fault.ts'

/** After this many written pages, the writer requests a checkpoint in another thread. */
const CHECKPOINT_ASKED_PAGES = 256
/**
 * From `CHECKPOINT_OWN_PAGES` written pages on, the writer does a checkpoint itself, so that the write-ahead file
 * starts over. It does so right after a checkpoint of the checkpoint thread, because few pages are then left to copy.
 * From `CHECKPOINT_OWN_PAGES_MAX` written pages on, it no longer waits for that thread.
 */
const CHECKPOINT_OWN_PAGES = 2_000
const CHECKPOINT_OWN_PAGES_MAX = 8_000

type PartitionOptions<Event extends LogEvent> = FileOptions<Event> & {
  readonly closedOrdersMax: number
  /** Maximum number of closed orders in the table before they are moved into a run (a sorted file). */
  readonly closedTailMax: number
  readonly mergeClosed: (job: MergeJob) => Promise<RunMeta | undefined>
  readonly archive?: ArchiveOptions & {
    readonly write: (job: ArchiveJob) => Promise<Segment | undefined>
  }
  /** Requests a checkpoint from the checkpoint thread. Called after enough pages were written. */
  readonly askCheckpoint: () => void
  /** Returns the number of checkpoints that the checkpoint thread has ended. */
  readonly checkpoints: () => number
}

export class Partition<Event extends LogEvent> {
  readonly #options: PartitionOptions<Event>
  readonly #mark: DurableMark
  readonly #encoder = new BatchEncoder()
  readonly #archive: ArchiveKeeper | undefined
  #open: PartitionFile<Event> | undefined
  #keeper: ClosedKeeper | undefined
  /**
   * Number of pages written since the last request to the checkpoint thread (`#pagesUnasked`), and since the writer's
   * own last checkpoint (`#pagesInWal`).
   */
  #pagesUnasked = 0
  #pagesInWal = 0
  /**
   * Resolves when all snapshots and all removals of run files have ended for the database files that were closed so
   * far.
   */
  #ending: Promise<unknown> = Promise.resolve()
  /** Number of checkpoints that the checkpoint thread had ended when the writer last looked. */
  #checkpoints = 0

  constructor(options: PartitionOptions<Event>) {
    this.#options = options
    this.#mark = new DurableMark(options.paths.mark)
    try {
      this.#archive = this.#openArchive()
      this.reopen()
    } catch (error) {
      this.#mark.close()
      throw error
    }
  }

  #openArchive(): ArchiveKeeper | undefined {
    const { archive, home, paths } = this.#options
    if (archive === undefined) return undefined
    return new ArchiveKeeper({ home, database: paths.database, write: archive.write }, archive)
  }

  /** Discards everything in memory about the file, and opens the file again. */
  reopen(): PartitionState {
    if (this.#open !== undefined) this.#close(this.#open)
    const archivedTo = this.#archive?.lastOffset ?? 0
    const file = openPartitionFile<Event>({ ...this.#options, archivedTo })
    this.#open = file
    this.#keeper = new ClosedKeeper(
      {
        table: file.closed,
        home: this.#options.home,
        database: this.#options.paths.database,
        merge: this.#options.mergeClosed,
        state: () => file.state,
        transaction: (change) => this.#transaction(file, change),
      },
      this.#options.closedTailMax,
    )
    this.#pagesUnasked = 0
    this.#pagesInWal = 0
    this.#checkpoints = 0
    this.#mark.write(this.#open.state.lastOffset)
    this.#mark.sync()
    return this.state()
  }

  /** Aborts snapshots in progress. Resolves when these snapshots and all removals of run files have ended. */
  async endSnapshots(): Promise<void> {
    await this.#open?.snapshots.close()
    await this.#open?.closed.runs.ended()
    await this.#ending
  }

  close(): void {
    if (this.#open !== undefined) this.#close(this.#open)
    this.#mark.close()
  }

  state(): PartitionState {
    const { partition, firstOffset, lastOffset, lastMs, meta } = this.#file().state
    return { partition, firstOffset, lastOffset, lastMs, meta }
  }

  read(fromOffset: number, limit: number): LogRecord<Event>[] {
    return this.#reading(() => this.#file().reader.read(fromOffset, limit))
  }

  append(batch: LogBatch<Event>): Appended {
    const file = this.#open
    if (file === undefined) {
      throw new Fault(
        'LOG_APPEND_FAILED',
        `${this.#options.paths.database} must be reopened after a failed append`,
        { retryable: true },
      )
    }
    const { home, form } = this.#options
    const firstOffset = file.state.lastOffset + 1
    const lastOffset = file.state.lastOffset + batch.events.length
    const changes = new IndexChanges()
    const fresh = new Map<MarketId, MarketRow>()
    let state: FileState = {
      ...file.state,
      lastOffset,
      lastMs: Math.max(file.state.lastMs, batch.nowMs),
      ...(batch.meta === undefined ? {} : { meta: { ...file.state.meta, ...batch.meta } }),
    }
    let bytes = 0
    const rows: Uint8Array[] = []
    try {
      file.begin.run()
      const write = (row: BatchRow) => {
        file.insertBatch.run(row.first_offset, row.count, row.version, row.crc, row.payload)
        bytes += row.payload.length
        // Copy the row, because the encoder reuses its buffer for the next row.
        if (batch.wantsRows) rows.push(new Uint8Array(row.payload))
      }
      this.#encoder.encode({ home, firstOffset }, batch.events, form, write)
      const markets = file.markets.add(batch.events, firstOffset, state.markets, fresh)
      state = file.closed.reopen(batch.reopened ?? [], { ...state, markets }, changes)
      state = file.closed.add(batch.closed ?? [], state, changes)
      bytes += (batch.closed?.length ?? 0) * CLOSED_ORDER_BYTES
      for (const trade of batch.trades ?? []) {
        state = { ...state, trades: file.trades.put(trade, state.trades) }
        bytes += 256
      }
      writeState(file, state)
      file.commit.run()
      this.#mark.write(lastOffset)
    } catch (error) {
      // It is unknown whether the transaction is durable, so the state in memory may be wrong: close the file.
      this.#close(file)
      throw appendFault(this.#options.paths.database, error)
    }
    file.state = state
    file.closed.apply(changes)
    for (const [marketId, row] of fresh) {
      file.markets.added(marketId, row)
      file.trades.clearOrphan(marketId)
    }
    this.#wrote(file, bytes)
    return { firstOffset, lastOffset, rows }
  }

  closedOrders(hashes: readonly OrderHash[]): (ClosedOrder | undefined)[] {
    const { closed } = this.#file()
    return this.#reading(() => closed.find(hashes))
  }

  closedOrderRoom(): number {
    return this.#options.closedOrdersMax - this.#file().closed.size
  }

  /**
   * Returns the number of closed orders in runs (`orders`), the memory of the runs' filters in bytes (`filterBytes`),
   * and the memory of all runs and of the table's index in bytes (`memory`).
   */
  closedRuns(): { readonly orders: number; readonly filterBytes: number; readonly memory: number } {
    const { runs, size } = this.#file().closed
    return {
      orders: runs.orders,
      filterBytes: runs.filterBytes,
      memory: runs.memoryBytes + 16 * size,
    }
  }

  forgetClosed(nowSec: number, limit: number): Forgotten {
    const file = this.#file()
    const changes = new IndexChanges()
    const { rows, cursor, more } = this.#reading(() => file.closed.due(nowSec, limit))
    if (rows.length > 0) {
      this.#transaction(file, (state) => {
        let { closed } = state
        for (const row of rows) closed = file.closed.forget(row, nowSec, closed, changes)
        return { ...state, closed }
      })
      file.closed.apply(changes)
    }
    file.closed.walkedTo(cursor)
    const keepsOn = this.#keeper?.step(nowSec) === true
    return { forgotten: changes.removed.count, passed: cursor === 0, more: more || keepsOn }
  }

  tradeStatuses(tradeIds: readonly TradeId[]): (TradeState | undefined)[] {
    const { trades } = this.#file()
    return this.#reading(() => tradeIds.map((tradeId) => trades.find(tradeId)))
  }

  beginSnapshot(marketId: MarketId, atOffset: number, seq: number): SnapshotWriter {
    const file = this.#file()
    assert(atOffset <= file.state.lastOffset, 'a snapshot must end at a durable offset')
    assert(file.markets.has(marketId), 'the partition does not have the market of the snapshot')
    return file.snapshots.begin(marketId, atOffset, seq)
  }

  snapshots(): SnapshotMeta[] {
    return this.#file().snapshots.all()
  }

  readSnapshot(marketId: MarketId): Snapshot | undefined {
    return this.#file().snapshots.read(marketId)
  }

  truncationFloor(): TruncationFloor {
    const { markets, snapshots, state } = this.#file()
    return truncationFloor(markets, snapshots, state)
  }

  truncate(belowOffset: number, projectedOffset: number, limit: number): Truncated {
    const file = this.#file()
    const unneeded = Math.min(belowOffset, projectedOffset + 1, this.truncationFloor().offset)
    const below = this.#archive?.reach(unneeded, file.state) ?? unneeded
    let firstOffset = file.state.firstOffset
    let removed = 0
    let more = false
    this.#reading(() => {
      for (const row of file.oldestBatches.iterate()) {
        const { first_offset: first, count } = row as { first_offset: number; count: number }
        const next = first + count
        // Keep the last batch, so that the end of the log can always be checked.
        if (next > below || next > file.state.lastOffset) break
        if (removed > 0 && removed + count > limit) {
          more = true
          break
        }
        firstOffset = next
        removed += count
      }
    })
    if (removed > 0) {
      this.#transaction(file, (state) => {
        file.deleteBatches.run(firstOffset)
        return { ...state, firstOffset }
      })
    }
    return { firstOffset, removed, more }
  }

  retireMarket(marketId: MarketId): void {
    const file = this.#file()
    if (!file.markets.has(marketId)) return
    this.#transaction(file, (state) => ({
      ...state,
      markets: file.markets.delete(marketId, state.markets),
    }))
    file.markets.removed(marketId)
    file.trades.orphan(marketId)
    file.snapshots.remove(marketId)
  }

  sweep(limit: number): number {
    const file = this.#file()
    this.#reading(() => file.trades.check(limit, file.state.trades))
    if (!file.trades.hasOrphans) return 0
    let swept = 0
    let finished: MarketId[] = []
    this.#transaction(file, (state) => {
      const step = file.trades.sweep(limit, state.trades)
      swept = step.swept
      finished = step.finished
      return { ...state, trades: step.trades }
    })
    for (const marketId of finished) file.trades.clearOrphan(marketId)
    return swept
  }

  #file(): PartitionFile<Event> {
    if (this.#open !== undefined) return this.#open
    throw new Fault('LOG_NEEDS_REOPEN', `${this.#options.paths.database} must be reopened first`, {
      retryable: true,
    })
  }

  /**
   * Runs a transaction other than an append. If it fails before the commit, the partition is unchanged. If the commit
   * fails, the file is closed.
   */
  #transaction(file: PartitionFile<Event>, change: (state: FileState) => FileState): void {
    let committing = false
    try {
      file.begin.run()
      const state = change(file.state)
      writeState(file, state)
      committing = true
      file.commit.run()
      file.state = state
    } catch (error) {
      if (committing || !rollBack(file.db)) this.#close(file)
      file.trades.checkAnew()
      throw sqliteFault('LOG_WRITE_FAILED', this.#options.paths.database, error)
    }
    this.#wrote(file, 0)
  }

  #close(file: PartitionFile<Event>): void {
    this.#open = undefined
    this.#keeper?.close()
    this.#keeper = undefined
    file.closed.runs.close()
    this.#ending = Promise.all([this.#ending, file.snapshots.close(), file.closed.runs.ended()])
    file.db.close()
  }

  #reading<Result>(read: () => Result): Result {
    try {
      return read()
    } catch (error) {
      throw sqliteFault('LOG_READ_FAILED', this.#options.paths.database, error)
    }
  }

  #wrote(file: PartitionFile<Event>, bytes: number): void {
    const pages = pagesOf(file, bytes)
    this.#pagesUnasked += pages
    this.#pagesInWal += pages
    if (this.#pagesUnasked >= CHECKPOINT_ASKED_PAGES) {
      this.#pagesUnasked = 0
      this.#options.askCheckpoint()
    }
    const checkpoints = this.#options.checkpoints()
    const hasJustEnded = checkpoints !== this.#checkpoints
    this.#checkpoints = checkpoints
    if (this.#pagesInWal < (hasJustEnded ? CHECKPOINT_OWN_PAGES : CHECKPOINT_OWN_PAGES_MAX)) return
    try {
      file.db.pragma('wal_checkpoint(PASSIVE)')
    } catch (error) {
      // Ignore an SQLite error of the checkpoint: the commit is safe in the write-ahead file. If the disk is full, the
      // next append reports it. Any other error is a bug.
      if (!(error instanceof Database.SqliteError)) throw error
    }
    // Start counting again. If a reader prevented the checkpoint from completing, the writer tries again after more
    // pages.
    this.#pagesInWal = 0
  }
}

/** Returns the approximate number of pages for a transaction of this many bytes. */
function pagesOf(file: { readonly pageBytes: number }, bytes: number): number {
  return Math.ceil(bytes / file.pageBytes) + 2
}

function appendFault(path: string, error: unknown): unknown {
  const fault = sqliteFault('LOG_APPEND_FAILED', path, error)
  if (!(fault instanceof Fault)) return fault
  return new Fault('LOG_APPEND_FAILED', fault.message, { retryable: true, cause: error })
}
