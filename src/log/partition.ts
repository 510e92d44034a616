/**
 * One partition: one SQLite file, one writer, this class. It owns the file's connection, the memory
 * that mirrors it (its state row, the index of closed hashes, the markets and their snapshots), and
 * changes that memory only after the transaction behind it has committed. It opens nothing whose
 * content it cannot vouch for.
 */

import assert from 'node:assert/strict'
import { crc32 } from 'node:zlib'
import Database from 'better-sqlite3'
import { Fault } from '#domain/fault.ts'
import { type MarketId, type OrderHash, parseTradeId, type TradeId } from '#domain/ids.ts'
import type { TradeStatus } from '#domain/trade.ts'
import { BatchReader } from './batches.ts'
import { ClosedIndex } from './closed-index.ts'
import {
  CLOSED_ORDER_BYTES,
  decodeClosedOrder,
  encodeClosedOrders,
  findClosedOrder,
  fingerprintAt,
  fingerprintOf,
  forgetAfterSecAt,
} from './closed-order.ts'
import { DurableMark, readMark } from './durable-mark.ts'
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
} from './event-log.ts'
import type { PartitionPaths } from './log-folder.ts'
import {
  BatchEncoder,
  type BatchRow,
  corrupt,
  decodeBatch,
  type RowHome,
  rowCrc,
  type Upcasters,
} from './record.ts'
import {
  checkSchema,
  EMPTY,
  type FileState,
  minus,
  parseState,
  plus,
  STATE_SELECT,
  type Tally,
} from './schema.ts'
import { SnapshotTable } from './snapshot.ts'
import { sqliteFault } from './sqlite-fault.ts'
import { scanWal } from './wal.ts'

/** Closed orders in one row of their table. */
const CLOSED_ROW_ORDERS_MAX = 4_096
/** The batches at the end that an open reads and checks; the others are checked when read. */
const TAIL_BATCHES_CHECKED = 4
/** Files up to this size get SQLite's own full check at every open: it reads all of the file. */
const QUICK_CHECK_BYTES_MAX = 64 * 1024 * 1024
/** How long the writer waits for a reader that holds an old view; only opening ever does. */
const BUSY_MS_MAX = 5_000
/** The writer asks for a checkpoint in another thread after this many pages… */
const CHECKPOINT_ASKED_PAGES = 256
/**
 * …and completes it itself after this many, so that the write-ahead file starts over: when one of
 * that thread has just ended, which leaves little to do, or at last anyway.
 */
const CHECKPOINT_OWN_PAGES = 2_000
const CHECKPOINT_OWN_PAGES_MAX = 8_000

export type PartitionOptions = {
  readonly home: RowHome
  readonly paths: PartitionPaths
  readonly upcasters: Upcasters
  readonly closedOrdersMax: number
  /** The most bytes the database file may take; an append beyond them fails like a full disk. */
  readonly bytesMax?: number
  /** Opens a log that ends before its mark: answered commands are lost, and somebody knows it. */
  readonly acceptLoss: boolean
  /** Called when enough has been written for a checkpoint in another thread. */
  readonly askCheckpoint: () => void
  /** How many of them have ended. */
  readonly checkpoints: () => number
}

type ClosedRow = { id: number; forget_min_sec: number; crc: number; payload: Buffer }
type TradeRow = { status: TradeStatus; tx_hash: string; at_ms: number; crc: number }
type MarketRow = { readonly firstOffset: number; readonly crc: number }
type IndexChange = { readonly fingerprint: number; readonly row: number }

export class Partition<Event extends LogEvent> {
  readonly #options: PartitionOptions
  readonly #mark: DurableMark
  readonly #encoder = new BatchEncoder()
  #open: OpenFile<Event> | undefined

  constructor(options: PartitionOptions) {
    this.#options = options
    this.#mark = new DurableMark(options.paths.mark)
    try {
      this.reopen()
    } catch (error) {
      this.#mark.close()
      throw error
    }
  }

  /** Forgets all memory of the file and opens it again. */
  reopen(): PartitionState {
    this.#open?.db.close()
    this.#open = undefined
    this.#open = openFile<Event>(this.#options)
    this.#mark.write(this.#open.state.lastOffset)
    this.#mark.sync()
    return this.state()
  }

  close(): void {
    this.#open?.db.close()
    this.#open = undefined
    this.#mark.close()
  }

  state(): PartitionState {
    const { partition, firstOffset, lastOffset, lastMs, meta } = this.#file().state
    return { partition, firstOffset, lastOffset, lastMs, meta }
  }

  read(fromOffset: number, limit: number): LogRecord<Event>[] {
    return this.#reading(() => this.#file().reader.read(fromOffset, limit))
  }

  append<Told extends LogEvent>(batch: LogBatch<Event, Told>): Appended {
    const file = this.#open
    if (file === undefined) {
      throw new Fault(
        'LOG_APPEND_FAILED',
        `${this.#options.paths.database} must be reopened after a failed append`,
        { retryable: true },
      )
    }
    const { home } = this.#options
    const firstOffset = file.state.lastOffset + 1
    const lastOffset = file.state.lastOffset + batch.events.length
    const removed: IndexChange[] = []
    const added: IndexChange[] = []
    const newMarkets = new Map<MarketId, MarketRow>()
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
        // A copy: the encoder's own buffer is good only until the next row.
        if (batch.wantsRows) rows.push(new Uint8Array(row.payload))
      }
      this.#encoder.encode(home, firstOffset, batch.events, write, batch.pack)
      state = this.#addMarkets(file, batch.events, firstOffset, newMarkets, state)
      for (const hash of batch.reopened ?? []) {
        state = { ...state, closed: this.#dropClosed(file, hash, state.closed, removed) }
      }
      state = this.#addClosed(file, batch.closed ?? [], state, added, removed)
      bytes += (batch.closed?.length ?? 0) * CLOSED_ORDER_BYTES
      for (const trade of batch.trades ?? []) {
        state = { ...state, trades: this.#putTrade(file, trade, state.trades) }
        bytes += 256
      }
      writeState(file, state)
      file.commit.run()
      this.#mark.write(lastOffset)
    } catch (error) {
      // Whether the transaction is durable is not known here, so nothing in memory is trusted.
      this.#close(file)
      throw appendFault(this.#options.paths.database, error)
    }
    file.state = state
    for (const { fingerprint, row } of removed) file.index.remove(fingerprint, row)
    for (const { fingerprint, row } of added) file.index.add(fingerprint, row)
    for (const [marketId, row] of newMarkets) {
      file.markets.set(marketId, row)
      file.tradeOrphans.delete(marketId)
    }
    this.#wrote(file, bytes)
    return { firstOffset, lastOffset, rows }
  }

  #addMarkets(
    file: OpenFile<Event>,
    events: readonly LogEvent[],
    firstOffset: number,
    added: Map<MarketId, MarketRow>,
    state: FileState,
  ): FileState {
    let tally = state.markets
    let before: MarketId | undefined
    for (let index = 0; index < events.length; index++) {
      const { marketId } = events[index]!
      if (marketId === before) continue
      before = marketId
      if (file.markets.has(marketId) || added.has(marketId)) continue
      const offset = firstOffset + index
      const crc = marketCrc(this.#options.home, marketId, offset)
      file.insertMarket.run(marketId, offset, crc)
      added.set(marketId, { firstOffset: offset, crc })
      tally = plus(tally, crc)
    }
    return { ...state, markets: tally }
  }

  #addClosed(
    file: OpenFile<Event>,
    orders: readonly ClosedOrder[],
    state: FileState,
    added: IndexChange[],
    removed: IndexChange[],
  ): FileState {
    if (orders.length === 0) return state
    let { closed, closedRowLast } = state
    for (let from = 0; from < orders.length; from += CLOSED_ROW_ORDERS_MAX) {
      const part = orders.slice(from, from + CLOSED_ROW_ORDERS_MAX)
      const payload = encodeClosedOrders(part)
      const row = ++closedRowLast
      for (let index = 0; index < part.length; index++) {
        const fingerprint = fingerprintAt(payload, index * CLOSED_ORDER_BYTES)
        if (file.index.rows(fingerprint).length > 0) {
          closed = this.#dropClosed(file, part[index]!.orderHash, closed, removed)
        }
        added.push({ fingerprint, row })
      }
      const forgetMin = part.reduce((min, order) => Math.min(min, order.forgetAfterSec), Infinity)
      const crc = closedCrc(this.#options.home, row, forgetMin, payload)
      file.insertClosed.run(row, forgetMin, crc, payload)
      closed = plus(closed, crc)
    }
    return { ...state, closed, closedRowLast }
  }

  /** Takes one hash out of its row, if it has one. */
  #dropClosed(
    file: OpenFile<Event>,
    hash: OrderHash,
    closed: Tally,
    removed: IndexChange[],
  ): Tally {
    const bytes = Buffer.from(hash.slice(2), 'hex')
    const fingerprint = fingerprintOf(hash)
    for (const id of new Set(file.index.rows(fingerprint))) {
      const row = this.#closedRow(file, id)
      // An earlier change of the same transaction may have emptied and removed the row.
      if (row === undefined) continue
      const at = findClosedOrder(row.payload, bytes)
      if (at < 0) continue
      removed.push({ fingerprint, row: id })
      const rest = Buffer.concat([
        row.payload.subarray(0, at),
        row.payload.subarray(at + CLOSED_ORDER_BYTES),
      ])
      return this.#replaceClosed(file, row, rest, closed)
    }
    return closed
  }

  #replaceClosed(file: OpenFile<Event>, row: ClosedRow, rest: Buffer, closed: Tally): Tally {
    const without = minus(closed, row.crc)
    if (rest.length === 0) {
      file.deleteClosed.run(row.id)
      return without
    }
    const forgetMin = forgetMinOf(rest)
    const crc = closedCrc(this.#options.home, row.id, forgetMin, rest)
    file.updateClosed.run(forgetMin, crc, rest, row.id)
    return plus(without, crc)
  }

  #closedRow(file: OpenFile<Event>, id: number): ClosedRow | undefined {
    const row = file.selectClosed.get(id) as ClosedRow | undefined
    if (row !== undefined) checkClosedRow(this.#options.home, row)
    return row
  }

  closedOrders(hashes: readonly OrderHash[]): (ClosedOrder | undefined)[] {
    return this.#reading(() => {
      const file = this.#file()
      return hashes.map((hash) => {
        const rows = file.index.rows(fingerprintOf(hash))
        if (rows.length === 0) return undefined
        const bytes = Buffer.from(hash.slice(2), 'hex')
        for (const id of rows) {
          const row = this.#closedRow(file, id)
          if (row === undefined) {
            throw corrupt(`${this.#options.paths.database}: row ${id} of closed orders is gone`)
          }
          const at = findClosedOrder(row.payload, bytes)
          if (at >= 0) return decodeClosedOrder(row.payload, at)
        }
        return undefined
      })
    })
  }

  closedOrderRoom(): number {
    return this.#options.closedOrdersMax - this.#file().index.size
  }

  forgetClosed(nowSec: number, limit: number): Forgotten {
    const file = this.#file()
    const removed: IndexChange[] = []
    const rows = this.#reading(() => file.walkClosed.all(file.forgetCursor, limit)) as {
      id: number
      forget_min_sec: number
    }[]
    const passed = rows.length < limit
    const due = rows.filter((row) => row.forget_min_sec < nowSec)
    if (due.length > 0) {
      this.#transaction(file, (state) => {
        let { closed } = state
        for (const { id } of due) {
          const row = this.#closedRow(file, id)
          assert(row !== undefined, 'a row that was just listed is there')
          const kept: Buffer[] = []
          for (let at = 0; at < row.payload.length; at += CLOSED_ORDER_BYTES) {
            if (forgetAfterSecAt(row.payload, at) < nowSec) {
              removed.push({ fingerprint: fingerprintAt(row.payload, at), row: id })
            } else {
              kept.push(row.payload.subarray(at, at + CLOSED_ORDER_BYTES))
            }
          }
          closed = this.#replaceClosed(file, row, Buffer.concat(kept), closed)
        }
        return { ...state, closed }
      })
      for (const { fingerprint, row } of removed) file.index.remove(fingerprint, row)
    }
    file.forgetCursor = passed ? 0 : (rows.at(-1)?.id ?? 0)
    return { forgotten: removed.length, passed }
  }

  #putTrade(file: OpenFile<Event>, trade: TradeState, trades: Tally): Tally {
    const key = tradeKey(trade.tradeId)
    const old = file.selectTrade.get(...key) as TradeRow | undefined
    const crc = tradeCrc(this.#options.home, trade)
    file.putTrade.run(...key, trade.status, trade.txHash, trade.atMs, crc)
    return plus(old === undefined ? trades : minus(trades, old.crc), crc)
  }

  tradeStatuses(tradeIds: readonly TradeId[]): (TradeState | undefined)[] {
    return this.#reading(() => {
      const file = this.#file()
      return tradeIds.map((tradeId) => {
        const row = file.selectTrade.get(...tradeKey(tradeId)) as TradeRow | undefined
        if (row === undefined) return undefined
        const { status, tx_hash: txHash, at_ms: atMs } = row
        const trade = { tradeId, status, txHash, atMs }
        if (tradeCrc(this.#options.home, trade) !== row.crc) {
          throw corrupt(`${this.#options.paths.database}: the status of ${tradeId} is damaged`)
        }
        return trade
      })
    })
  }

  beginSnapshot(marketId: MarketId, atOffset: number, seq: number): SnapshotWriter {
    const file = this.#file()
    assert(atOffset <= file.state.lastOffset, 'a snapshot holds only what is durable')
    assert(file.markets.has(marketId), 'a snapshot is of a market that the partition knows')
    const snapshot = file.state.snapshotLast + 1
    this.#transaction(file, (state) => ({ ...state, snapshotLast: snapshot }))
    let chunks = 0
    let bytes = 0
    let ended = false
    const step = () => {
      assert(!ended, 'a snapshot that was committed or aborted takes nothing more')
      if (this.#open !== file) {
        throw new Fault('LOG_SNAPSHOT_FAILED', 'the partition was reopened meanwhile', {
          retryable: true,
        })
      }
    }
    return {
      writeChunk: (chunk) => {
        step()
        const payload = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
        // The commit of the snapshot waits for the disk: a market need not wait for each chunk.
        this.#lazyTransaction(file, (state) => {
          file.snapshotTable.insertChunk(snapshot, chunks, payload)
          // What this snapshot will replace, or an aborted one left, goes at the same pace.
          file.snapshotTable.sweep(2)
          return state
        })
        chunks++
        bytes += payload.length
        this.#wrote(file, payload.length)
      },
      commit: () => {
        step()
        const meta: SnapshotMeta = { marketId, atOffset, seq, chunks, bytes }
        const old = file.snapshotTable.get(marketId)
        const row = file.snapshotTable.row(snapshot, meta)
        this.#transaction(file, (state) => {
          file.snapshotTable.put(row)
          const rest = old === undefined ? state.snapshots : minus(state.snapshots, old.crc)
          return { ...state, snapshots: plus(rest, row.crc) }
        })
        ended = true
        file.snapshotTable.published(row, old)
        return meta
      },
      abort: () => {
        if (ended || this.#open !== file) return
        ended = true
        file.snapshotTable.orphan(snapshot)
      },
    }
  }

  snapshots(): SnapshotMeta[] {
    return this.#file().snapshotTable.all()
  }

  readSnapshot(marketId: MarketId): Snapshot | undefined {
    return this.#file().snapshotTable.read(marketId)
  }

  truncationFloor(): TruncationFloor {
    const file = this.#file()
    let floor: TruncationFloor = { offset: file.state.lastOffset + 1 }
    for (const [marketId, { firstOffset }] of file.markets) {
      const snapshot = file.snapshotTable.get(marketId)
      const offset = snapshot === undefined ? firstOffset : snapshot.meta.atOffset + 1
      if (offset < floor.offset) floor = { offset, marketId }
    }
    return floor
  }

  truncate(belowOffset: number, projectedOffset: number, limit: number): Truncated {
    const file = this.#file()
    const below = Math.min(belowOffset, projectedOffset + 1, this.truncationFloor().offset)
    let firstOffset = file.state.firstOffset
    let removed = 0
    let more = false
    this.#reading(() => {
      for (const row of file.oldestBatches.iterate()) {
        const { first_offset: first, count } = row as { first_offset: number; count: number }
        const next = first + count
        // The last batch stays, so that the end of the log can always be checked against something.
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
    const market = file.markets.get(marketId)
    if (market === undefined) return
    const snapshot = file.snapshotTable.get(marketId)
    this.#transaction(file, (state) => {
      file.deleteMarket.run(marketId)
      const markets = minus(state.markets, market.crc)
      if (snapshot === undefined) return { ...state, markets }
      file.snapshotTable.delete(marketId)
      return { ...state, markets, snapshots: minus(state.snapshots, snapshot.crc) }
    })
    file.markets.delete(marketId)
    file.tradeOrphans.add(marketId)
    if (snapshot !== undefined) file.snapshotTable.removed(snapshot)
  }

  sweep(limit: number): number {
    const file = this.#file()
    let swept = 0
    const finished: MarketId[] = []
    if (!file.snapshotTable.hasOrphans && file.tradeOrphans.size === 0) return 0
    this.#transaction(file, (state) => {
      swept = file.snapshotTable.sweep(limit)
      let { trades } = state
      for (const marketId of file.tradeOrphans) {
        if (swept >= limit) break
        const market = Buffer.from(marketId.slice(2), 'hex')
        const rows = file.listTrades.all(market, limit - swept) as {
          seq: number
          fill: number
          crc: number
        }[]
        for (const { seq, fill, crc } of rows) {
          file.deleteTrade.run(market, seq, fill)
          trades = minus(trades, crc)
        }
        swept += rows.length
        if (swept < limit) finished.push(marketId)
      }
      return { ...state, trades }
    })
    for (const marketId of finished) file.tradeOrphans.delete(marketId)
    return swept
  }

  #file(): OpenFile<Event> {
    if (this.#open !== undefined) return this.#open
    throw new Fault('LOG_NEEDS_REOPEN', `${this.#options.paths.database} must be reopened first`, {
      retryable: true,
    })
  }

  /** A transaction that is not an append: it fails whole and leaves the partition as it was. */
  #transaction(file: OpenFile<Event>, change: (state: FileState) => FileState): void {
    let state: FileState
    let committing = false
    try {
      file.begin.run()
      state = change(file.state)
      writeState(file, state)
      committing = true
      file.commit.run()
    } catch (error) {
      if (committing || !rolledBack(file)) this.#close(file)
      throw sqliteFault('LOG_WRITE_FAILED', this.#options.paths.database, error)
    }
    file.state = state
    this.#wrote(file, 0)
  }

  /**
   * A transaction that does not wait for the disk: after a loss of power it is whole or not there,
   * and it is on the disk at the latest with the next one that waits.
   */
  #lazyTransaction(file: OpenFile<Event>, change: (state: FileState) => FileState): void {
    file.db.pragma('synchronous = NORMAL')
    try {
      this.#transaction(file, change)
    } finally {
      if (this.#open === file) this.#waitAgain(file)
    }
  }

  /** An append must never find the file without. */
  #waitAgain(file: OpenFile<Event>): void {
    try {
      file.db.pragma('synchronous = FULL')
    } catch (error) {
      this.#close(file)
      throw sqliteFault('LOG_WRITE_FAILED', this.#options.paths.database, error)
    }
  }

  #close(file: OpenFile<Event>): void {
    this.#open = undefined
    file.db.close()
  }

  #reading<Result>(read: () => Result): Result {
    try {
      return read()
    } catch (error) {
      throw sqliteFault('LOG_READ_FAILED', this.#options.paths.database, error)
    }
  }

  #wrote(file: OpenFile<Event>, bytes: number): void {
    const pages = Math.ceil(bytes / file.pageBytes) + 2
    file.pagesUnasked += pages
    file.pagesInWal += pages
    if (file.pagesUnasked >= CHECKPOINT_ASKED_PAGES) {
      file.pagesUnasked = 0
      this.#options.askCheckpoint()
    }
    const checkpoints = this.#options.checkpoints()
    const hasJustEnded = checkpoints !== file.checkpoints
    file.checkpoints = checkpoints
    if (file.pagesInWal < (hasJustEnded ? CHECKPOINT_OWN_PAGES : CHECKPOINT_OWN_PAGES_MAX)) return
    try {
      file.db.pragma('wal_checkpoint(PASSIVE)')
    } catch (error) {
      // What is committed stays in the write-ahead file. If the disk is full, the next append says
      // so; anything that is not SQLite's is a bug.
      if (!(error instanceof Database.SqliteError)) throw error
    }
    // A reader may have kept it from completing; then it is tried again after some more pages.
    file.pagesInWal = 0
  }
}

type OpenFile<Event extends LogEvent> = {
  readonly db: Database.Database
  readonly pageBytes: number
  readonly reader: BatchReader<Event>
  readonly index: ClosedIndex
  readonly markets: Map<MarketId, MarketRow>
  readonly snapshotTable: SnapshotTable
  /** Retired markets whose trade statuses are still in the file. */
  readonly tradeOrphans: Set<MarketId>
  state: FileState
  forgetCursor: number
  pagesUnasked: number
  pagesInWal: number
  /** How many checkpoints of the other thread had ended at the last look. */
  checkpoints: number
} & Statements

type Statements = ReturnType<typeof prepare>

function prepare(db: Database.Database) {
  return {
    begin: db.prepare('BEGIN IMMEDIATE'),
    commit: db.prepare('COMMIT'),
    updateState: db.prepare('UPDATE state SET json = ?, crc = ? WHERE id = 1'),
    insertBatch: db.prepare('INSERT INTO batches VALUES (?, ?, ?, ?, ?)'),
    oldestBatches: db.prepare('SELECT first_offset, count FROM batches ORDER BY first_offset'),
    deleteBatches: db.prepare('DELETE FROM batches WHERE first_offset < ?'),
    insertClosed: db.prepare('INSERT INTO closed_orders VALUES (?, ?, ?, ?)'),
    selectClosed: db.prepare(
      'SELECT id, forget_min_sec, crc, payload FROM closed_orders WHERE id = ?',
    ),
    updateClosed: db.prepare(
      'UPDATE closed_orders SET forget_min_sec = ?, crc = ?, payload = ? WHERE id = ?',
    ),
    deleteClosed: db.prepare('DELETE FROM closed_orders WHERE id = ?'),
    walkClosed: db.prepare(
      'SELECT id, forget_min_sec FROM closed_orders WHERE id > ? ORDER BY id LIMIT ?',
    ),
    selectTrade: db.prepare(
      'SELECT status, tx_hash, at_ms, crc FROM trade_status WHERE market_id = ? AND seq = ? AND fill = ?',
    ),
    putTrade: db.prepare('INSERT OR REPLACE INTO trade_status VALUES (?, ?, ?, ?, ?, ?, ?)'),
    listTrades: db.prepare('SELECT seq, fill, crc FROM trade_status WHERE market_id = ? LIMIT ?'),
    deleteTrade: db.prepare(
      'DELETE FROM trade_status WHERE market_id = ? AND seq = ? AND fill = ?',
    ),
    insertMarket: db.prepare('INSERT INTO markets VALUES (?, ?, ?)'),
    deleteMarket: db.prepare('DELETE FROM markets WHERE market_id = ?'),
  }
}

function openFile<Event extends LogEvent>(options: PartitionOptions): OpenFile<Event> {
  const { home, paths } = options
  let db: Database.Database | undefined
  try {
    let mark = 0
    try {
      mark = readMark(paths.mark)
      scanWal(paths.wal)
    } catch (error) {
      if (!(options.acceptLoss && error instanceof Fault)) throw error
    }
    db = new Database(paths.database, { fileMustExist: true, timeout: BUSY_MS_MAX })
    if (db.pragma('journal_mode = WAL', { simple: true }) !== 'wal') {
      throw corrupt(`${paths.database} is not in write-ahead mode`)
    }
    db.pragma('synchronous = FULL')
    db.pragma('wal_autocheckpoint = 0')
    db.pragma('journal_size_limit = 67108864')
    db.pragma('cell_size_check = ON')
    db.pragma('cache_size = -16384')
    const pageBytes = Number(db.pragma('page_size', { simple: true }))
    if (options.bytesMax !== undefined) {
      db.pragma(`max_page_count = ${Math.floor(options.bytesMax / pageBytes)}`)
    }
    const pages = Number(db.pragma('page_count', { simple: true }))
    if (pages * pageBytes <= QUICK_CHECK_BYTES_MAX) {
      const verdict = db.pragma('quick_check(1)', { simple: true })
      if (verdict !== 'ok') throw corrupt(`${paths.database}: ${verdict}`)
    }
    checkSchema(db, paths.database)
    const state = parseState(db.prepare(STATE_SELECT).get(), paths.database)
    if (state.logId !== home.logId || state.partition !== home.partition) {
      throw corrupt(`${paths.database} belongs to partition ${state.partition} of another place`)
    }
    if (state.lastOffset < mark && !options.acceptLoss) {
      throw new Fault(
        'LOG_LOST',
        `${paths.database} ends at offset ${state.lastOffset}, but offset ${mark} was durable: ` +
          'answered commands are missing; restore the file and its -wal from a copy',
        { retryable: false },
      )
    }
    checkTail(db, home, state, options.upcasters, paths.database)
    const markets = loadMarkets(db, home, state, paths.database)
    const file: OpenFile<Event> = {
      ...prepare(db),
      db,
      pageBytes,
      reader: new BatchReader<Event>(db, paths.database, home, options.upcasters),
      index: loadClosed(db, home, state, paths.database),
      markets,
      snapshotTable: new SnapshotTable(db, home, state.snapshots, paths.database),
      tradeOrphans: loadTrades(db, home, state, markets, paths.database),
      state,
      forgetCursor: 0,
      pagesUnasked: 0,
      pagesInWal: 0,
      checkpoints: 0,
    }
    // The write-ahead file starts over with new salts, so that nothing of a torn commit can ever
    // be taken for part of a later one.
    const [checkpoint] = db.pragma('wal_checkpoint(TRUNCATE)') as { busy: number }[]
    if (checkpoint?.busy !== 0) {
      throw new Fault('LOG_OPEN_FAILED', `${paths.database}: a reader holds an old view of it`, {
        retryable: true,
      })
    }
    return file
  } catch (error) {
    db?.close()
    throw sqliteFault('LOG_OPEN_FAILED', paths.database, error)
  }
}

function checkTail(
  db: Database.Database,
  home: RowHome,
  state: FileState,
  upcasters: Upcasters,
  path: string,
): void {
  const rows = db
    .prepare(
      'SELECT first_offset, count, version, crc, payload FROM batches ORDER BY first_offset DESC LIMIT ?',
    )
    .all(TAIL_BATCHES_CHECKED) as BatchRow[]
  let next = state.lastOffset + 1
  for (const row of rows) {
    decodeBatch(home, row, upcasters)
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

function loadMarkets(
  db: Database.Database,
  home: RowHome,
  state: FileState,
  path: string,
): Map<MarketId, MarketRow> {
  const markets = new Map<MarketId, MarketRow>()
  let tally = EMPTY
  const rows = db.prepare('SELECT market_id, first_offset, crc FROM markets').iterate()
  for (const row of rows as Iterable<{ market_id: MarketId; first_offset: number; crc: number }>) {
    if (marketCrc(home, row.market_id, row.first_offset) !== row.crc) {
      throw corrupt(`${path}: a row of the markets is damaged`)
    }
    tally = plus(tally, row.crc)
    markets.set(row.market_id, { firstOffset: row.first_offset, crc: row.crc })
  }
  checkTally(tally, state.markets, 'markets', path)
  return markets
}

function loadClosed(
  db: Database.Database,
  home: RowHome,
  state: FileState,
  path: string,
): ClosedIndex {
  const index = new ClosedIndex()
  let tally = EMPTY
  const rows = db.prepare('SELECT id, forget_min_sec, crc, payload FROM closed_orders').iterate()
  for (const row of rows as Iterable<ClosedRow>) {
    checkClosedRow(home, row)
    tally = plus(tally, row.crc)
    for (let at = 0; at < row.payload.length; at += CLOSED_ORDER_BYTES) {
      index.add(fingerprintAt(row.payload, at), row.id)
    }
  }
  checkTally(tally, state.closed, 'closed orders', path)
  return index
}

/** Checks every status, and returns the markets of those whose market is gone. */
function loadTrades(
  db: Database.Database,
  home: RowHome,
  state: FileState,
  markets: ReadonlyMap<MarketId, MarketRow>,
  path: string,
): Set<MarketId> {
  const orphans = new Set<MarketId>()
  let tally = EMPTY
  const rows = db.prepare('SELECT * FROM trade_status').iterate()
  for (const row of rows as Iterable<TradeRow & { market_id: Buffer; seq: number; fill: number }>) {
    const { status, tx_hash: txHash, at_ms: atMs } = row
    const key = Buffer.isBuffer(row.market_id) ? row.market_id.toString('hex') : 'no bytes'
    const marketId = `0x${key}` as MarketId
    const tradeId = `${marketId}-${row.seq}-${row.fill}` as TradeId
    if (tradeCrc(home, { tradeId, status, txHash, atMs }) !== row.crc) {
      throw corrupt(`${path}: a row of the trade statuses is damaged`)
    }
    tally = plus(tally, row.crc)
    if (!markets.has(marketId)) orphans.add(marketId)
  }
  checkTally(tally, state.trades, 'trade statuses', path)
  return orphans
}

function checkTally(found: Tally, stated: Tally, what: string, path: string): void {
  if (found.rows !== stated.rows || found.sum !== stated.sum) {
    throw corrupt(`${path}: ${stated.rows} rows of ${what} were written, ${found.rows} are there`)
  }
}

function checkClosedRow(home: RowHome, row: ClosedRow): void {
  if (closedCrc(home, row.id, row.forget_min_sec, row.payload) !== row.crc) {
    throw corrupt(`partition ${home.partition}: row ${row.id} of the closed orders is damaged`)
  }
}

function closedCrc(home: RowHome, id: number, forgetMinSec: number, payload: Buffer): number {
  return rowCrc('closed_orders', home, [id, forgetMinSec], payload)
}

function marketCrc(home: RowHome, marketId: MarketId, firstOffset: number): number {
  return rowCrc('markets', home, [marketId, firstOffset])
}

function tradeCrc(home: RowHome, trade: TradeState): number {
  const { tradeId, status, txHash, atMs } = trade
  return rowCrc('trade_status', home, [tradeId, status, txHash, atMs])
}

function tradeKey(tradeId: TradeId): [Buffer, number, number] {
  const parts = parseTradeId(tradeId)
  assert(parts !== undefined, 'a trade id has a market, a sequence number and an index')
  return [Buffer.from(parts.marketId.slice(2), 'hex'), parts.sequence, parts.fillIndex]
}

function forgetMinOf(payload: Buffer): number {
  let min = Number.MAX_SAFE_INTEGER
  for (let at = 0; at < payload.length; at += CLOSED_ORDER_BYTES) {
    min = Math.min(min, forgetAfterSecAt(payload, at))
  }
  return min
}

function writeState(file: { readonly updateState: Database.Statement }, state: FileState): void {
  const json = JSON.stringify(state)
  file.updateState.run(json, crc32(json))
}

function rolledBack(file: { readonly db: Database.Database }): boolean {
  try {
    if (file.db.inTransaction) file.db.exec('ROLLBACK')
    return true
  } catch (error) {
    if (error instanceof Database.SqliteError) return false
    throw error
  }
}

function appendFault(path: string, error: unknown): unknown {
  const fault = sqliteFault('LOG_APPEND_FAILED', path, error)
  if (!(fault instanceof Fault)) return fault
  return new Fault('LOG_APPEND_FAILED', fault.message, { retryable: true, cause: error })
}
