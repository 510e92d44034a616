/**
 * The open file of a partition: its connection, its tables, and the last committed state row. Opening checks everything
 * that can be checked quickly, and refuses a file that fails a check.
 */

import { crc32 } from 'node:zlib'
import Database from 'better-sqlite3'
import { Fault } from '#domain/fault.ts'
import { ClosedRuns, type RunsOptions } from '../closed/closed-runs.ts'
import { ClosedTable } from '../closed/closed-table.ts'
import type { EventForm, LogEvent, TruncationFloor } from '../event-log.ts'
import type { PartitionPaths } from '../log-folder.ts'
import { SnapshotFiles } from '../snapshots/snapshot-files.ts'
import { BatchReader } from './batches.ts'
import { readMark } from './durable-mark.ts'
import { MarketTable } from './market-table.ts'
import { type BatchRow, corrupt, decodeBatch, type RowHome, type Upcasters } from './record.ts'
import { checkSchema, type FileState, parseState, STATE_SELECT } from './schema.ts'
import { sqliteFault } from './sqlite-fault.ts'
import { TradeTable } from './trade-table.ts'
import { checkWal } from './wal.ts'

/**
 * Number of batches at the end of the log that are checked when the file is opened. Earlier batches are checked when
 * they are read.
 */
const TAIL_BATCHES_CHECKED = 4
/** Files up to this size get SQLite's `quick_check` at every open, which reads the whole file. */
const QUICK_CHECK_BYTES_MAX = 64 * 1024 * 1024
/**
 * Maximum time that opening waits for a reader that still sees an older state of the database. The wait blocks the
 * whole thread, including the markets of its other partitions. If the reader takes longer, opening fails and is
 * retried.
 */
const BUSY_MS_MAX = 1_000

export type FileOptions<Event extends LogEvent> = Place & { readonly form: EventForm<Event> }

type Place = {
  readonly home: RowHome
  readonly paths: PartitionPaths
  readonly upcasters: Upcasters
  readonly runs: RunsOptions
  /** Maximum size of the database file. An append beyond this size fails as if the disk were full. */
  readonly bytesMax?: number
  /**
   * True to open even a log that ends before its mark: acknowledged commands are lost, and the operator accepts that.
   */
  readonly acceptLoss: boolean
  /**
   * True for a local copy of a log in a database server. The copy is not synced: data that a power cut destroys is
   * fetched again.
   */
  readonly isCopy?: boolean
  /** Last offset in the archive. */
  readonly archivedTo?: number
}

export type PartitionFile<Event extends LogEvent> = {
  readonly db: Database.Database
  readonly pageBytes: number
  readonly reader: BatchReader<Event>
  readonly closed: ClosedTable
  readonly trades: TradeTable
  readonly markets: MarketTable
  readonly snapshots: SnapshotFiles
  /** State of the last committed transaction. */
  state: FileState
} & ReturnType<typeof prepare>

function prepare(db: Database.Database) {
  return {
    begin: db.prepare('BEGIN IMMEDIATE'),
    commit: db.prepare('COMMIT'),
    updateState: db.prepare('UPDATE state SET json = ?, crc = ? WHERE id = 1'),
    insertBatch: db.prepare('INSERT INTO batches VALUES (?, ?, ?, ?, ?)'),
    oldestBatches: db.prepare('SELECT first_offset, count FROM batches ORDER BY first_offset'),
    deleteBatches: db.prepare('DELETE FROM batches WHERE first_offset < ?'),
  }
}

export function openPartitionFile<Event extends LogEvent>(
  options: FileOptions<Event>,
): PartitionFile<Event> {
  const { home, paths } = options
  const path = paths.database
  let db: Database.Database | undefined
  let runs: ClosedRuns | undefined
  try {
    const mark = readBeforeSqlite(options)
    db = new Database(path, { fileMustExist: true, timeout: BUSY_MS_MAX })
    const pageBytes = setUp(db, options)
    checkSchema(db, path)
    const state = parseState(db.prepare(STATE_SELECT).get(), path)
    if (state.logId !== home.logId || state.partition !== home.partition) {
      throw corrupt(`${path} belongs to partition ${state.partition} of another log`)
    }
    if (state.lastOffset < mark && !options.acceptLoss) {
      throw lost(path, state.lastOffset, `offset ${mark} was durable`)
    }
    const { archivedTo = 0 } = options
    if (state.lastOffset < archivedTo && !options.acceptLoss) {
      throw lost(path, state.lastOffset, `the archive contains offset ${archivedTo}`)
    }
    checkTail(db, options, state)
    const markets = new MarketTable(db, home, state.markets, path)
    const snapshots = findSnapshots(options, markets, state)
    runs = new ClosedRuns(db, { folder: paths.runs, home }, state.runs, options.runs)
    const file: PartitionFile<Event> = {
      ...prepare(db),
      db,
      pageBytes,
      reader: new BatchReader(db, path, home, options),
      closed: new ClosedTable(db, { home, path }, state, runs),
      trades: new TradeTable(db, path, home, { stated: state.trades, markets }),
      markets,
      snapshots,
      state,
    }
    // Truncate the write-ahead file, so that it starts over with new salts. Frames of a torn commit have the old salts,
    // so they can never become part of a later commit.
    const [checkpoint] = db.pragma('wal_checkpoint(TRUNCATE)') as { busy: number }[]
    if (checkpoint?.busy !== 0) {
      throw new Fault(
        'LOG_OPEN_FAILED',
        `${path}: another reader still reads an old state of this file; opening is retried`,
        {
          retryable: true,
        },
      )
    }
    snapshots.removeUseless()
    runs.removeUseless()
    return file
  } catch (error) {
    runs?.close()
    db?.close()
    throw sqliteFault('LOG_OPEN_FAILED', path, error)
  }
}

/**
 * Checks the write-ahead file, because SQLite would silently drop damaged parts of it. Then returns the mark (the last
 * durable offset).
 */
function readBeforeSqlite({ paths, acceptLoss }: Place): number {
  let mark = 0
  try {
    mark = readMark(paths.mark)
    checkWal(paths.wal)
  } catch (error) {
    if (!(acceptLoss && error instanceof Fault)) throw error
  }
  return mark
}

/** Applies the settings of a connection, and returns its page size. */
function setUp(db: Database.Database, { paths, bytesMax, isCopy }: Place): number {
  if (db.pragma('journal_mode = WAL', { simple: true }) !== 'wal') {
    throw corrupt(`${paths.database} is not in write-ahead mode`)
  }
  db.pragma(`synchronous = ${isCopy === true ? 'OFF' : 'FULL'}`)
  db.pragma('wal_autocheckpoint = 0')
  db.pragma('journal_size_limit = 67108864')
  db.pragma('cell_size_check = ON')
  db.pragma('cache_size = -16384')
  const pageBytes = Number(db.pragma('page_size', { simple: true }))
  if (bytesMax !== undefined) db.pragma(`max_page_count = ${Math.floor(bytesMax / pageBytes)}`)
  const pages = Number(db.pragma('page_count', { simple: true }))
  if (pages * pageBytes <= QUICK_CHECK_BYTES_MAX) {
    const verdict = db.pragma('quick_check(1)', { simple: true })
    if (verdict !== 'ok') throw corrupt(`${paths.database}: ${verdict}`)
  }
  return pageBytes
}

function checkTail<Event extends LogEvent>(
  db: Database.Database,
  { home, paths, upcasters, form }: FileOptions<Event>,
  state: FileState,
): void {
  const path = paths.database
  const rows = db
    .prepare(
      'SELECT first_offset, count, version, crc, payload FROM batches ORDER BY first_offset DESC LIMIT ?',
    )
    .all(TAIL_BATCHES_CHECKED) as BatchRow[]
  let next = state.lastOffset + 1
  for (const row of rows) {
    decodeBatch(home, row, upcasters, form)
    if (row.first_offset + row.count !== next) {
      throw corrupt(`${path}: the batch before offset ${next} is missing`)
    }
    next = row.first_offset
  }
  const wholeLogSeen = rows.length < TAIL_BATCHES_CHECKED
  if (next < state.firstOffset || (wholeLogSeen && next !== state.firstOffset)) {
    throw corrupt(`${path}: its batches do not begin at offset ${state.firstOffset}`)
  }
}

/**
 * Finds the snapshots that fit the log. Throws if events that a market needs were truncated, and the snapshot that
 * replaces them is missing.
 */
function findSnapshots(
  { home, paths, acceptLoss }: Place,
  markets: MarketTable,
  state: FileState,
): SnapshotFiles {
  const path = paths.database
  const snapshots = new SnapshotFiles(paths.snapshots, home, ({ marketId, atOffset }) => {
    if (atOffset > state.lastOffset && !acceptLoss) {
      throw lost(path, state.lastOffset, `a snapshot of ${marketId} includes offset ${atOffset}`)
    }
    if (atOffset > state.lastOffset) return 'ahead'
    const firstOffset = markets.get(marketId)?.firstOffset
    return firstOffset !== undefined && firstOffset <= atOffset ? 'fits' : 'useless'
  })
  const floor = truncationFloor(markets, snapshots, state)
  if (floor.offset < state.firstOffset) {
    throw corrupt(
      `${path} begins at offset ${state.firstOffset}, but ${paths.snapshots} has no snapshot of ` +
        `market ${floor.marketId} that covers the events before that offset`,
    )
  }
  return snapshots
}

/** Returns the lowest offset that a market still needs. */
export function truncationFloor(
  markets: MarketTable,
  snapshots: SnapshotFiles,
  { lastOffset }: FileState,
): TruncationFloor {
  let floor: TruncationFloor = { offset: lastOffset + 1 }
  for (const [marketId, { firstOffset }] of markets.all()) {
    const snapshot = snapshots.get(marketId)
    const offset = snapshot === undefined ? firstOffset : snapshot.atOffset + 1
    if (offset < floor.offset) floor = { offset, marketId }
  }
  return floor
}

function lost(path: string, lastOffset: number, why: string): Fault {
  return new Fault(
    'LOG_LOST',
    `${path} ends at offset ${lastOffset}, but ${why}: acknowledged commands are missing; restore all ` +
      'files of the partition from the same backup',
    { retryable: false },
  )
}

/** Writes the row that describes the file. Call it within a transaction, as the last write before the commit. */
export function writeState(
  file: { readonly updateState: Database.Statement },
  state: FileState,
): void {
  const json = JSON.stringify(state)
  file.updateState.run(json, crc32(json))
}

/**
 * Rolls back the open transaction, if there is one. Returns whether the connection is now outside of any transaction.
 */
export function rollBack(db: Database.Database): boolean {
  try {
    if (db.inTransaction) db.exec('ROLLBACK')
    return true
  } catch (error) {
    if (error instanceof Database.SqliteError) return false
    throw error
  }
}
