/**
 * The snapshots of a partition's markets: one finished snapshot for each market, in chunks that were
 * written one by one. A snapshot exists once its row does; chunks without a row belong to one that
 * was replaced, aborted or cut short by a crash, and are swept away in small steps.
 */

import type BetterSqlite3 from 'better-sqlite3'
import type { MarketId } from '#domain/ids.ts'
import type { Snapshot, SnapshotMeta } from './event-log.ts'
import { corrupt, type RowHome, rowCrc } from './record.ts'
import { checkTally, EMPTY, plus, type Tally } from './schema.ts'
import { sqliteFault } from './sqlite-fault.ts'

/** A chunk's key is its snapshot's number times this, plus its place. */
const CHUNKS_MAX = 1_000_000

export type SnapshotRow = {
  readonly snapshot: number
  readonly meta: SnapshotMeta
  readonly crc: number
}

export class SnapshotTable {
  readonly #home: RowHome
  readonly #path: string
  readonly #rows = new Map<MarketId, SnapshotRow>()
  readonly #orphans = new Set<number>()
  readonly #insertChunk: BetterSqlite3.Statement
  readonly #selectChunk: BetterSqlite3.Statement
  readonly #deleteChunks: BetterSqlite3.Statement
  readonly #put: BetterSqlite3.Statement
  readonly #delete: BetterSqlite3.Statement

  /** Reads and checks the rows of the snapshots; their chunks are checked when they are read. */
  constructor(db: BetterSqlite3.Database, home: RowHome, stated: Tally, path: string) {
    this.#home = home
    this.#path = path
    this.#insertChunk = db.prepare('INSERT INTO snapshot_chunks VALUES (?, ?, ?)')
    this.#selectChunk = db.prepare('SELECT crc, payload FROM snapshot_chunks WHERE id = ?')
    this.#deleteChunks = db.prepare(
      'DELETE FROM snapshot_chunks WHERE id IN ' +
        '(SELECT id FROM snapshot_chunks WHERE id >= ? AND id < ? ORDER BY id LIMIT ?)',
    )
    this.#put = db.prepare('INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?, ?, ?)')
    this.#delete = db.prepare('DELETE FROM snapshots WHERE market_id = ?')
    this.#load(db, stated)
  }

  #load(db: BetterSqlite3.Database, stated: Tally): void {
    let tally = EMPTY
    const live = new Set<number>()
    const rows = db.prepare('SELECT * FROM snapshots').all() as {
      market_id: MarketId
      snapshot: number
      at_offset: number
      seq: number
      chunks: number
      bytes: number
      crc: number
    }[]
    for (const {
      market_id: marketId,
      snapshot,
      at_offset: atOffset,
      seq,
      chunks,
      bytes,
      crc,
    } of rows) {
      const row = this.row(snapshot, { marketId, atOffset, seq, chunks, bytes })
      if (row.crc !== crc) throw corrupt(`${this.#path}: a row of the snapshots is damaged`)
      tally = plus(tally, crc)
      this.#rows.set(marketId, row)
      live.add(snapshot)
    }
    checkTally(tally, stated, 'snapshots', this.#path)
    for (const id of db.prepare('SELECT id FROM snapshot_chunks').pluck().iterate()) {
      const snapshot = Math.floor((id as number) / CHUNKS_MAX)
      if (!live.has(snapshot)) this.#orphans.add(snapshot)
    }
  }

  row(snapshot: number, meta: SnapshotMeta): SnapshotRow {
    const { marketId, atOffset, seq, chunks, bytes } = meta
    const fields = [snapshot, marketId, atOffset, seq, chunks, bytes]
    return { snapshot, meta, crc: rowCrc('snapshots', this.#home, fields) }
  }

  get(marketId: MarketId): SnapshotRow | undefined {
    return this.#rows.get(marketId)
  }

  all(): SnapshotMeta[] {
    return Array.from(this.#rows.values(), (row) => row.meta)
  }

  read(marketId: MarketId): Snapshot | undefined {
    const row = this.#rows.get(marketId)
    return row === undefined ? undefined : { meta: row.meta, chunks: this.#chunks(row) }
  }

  *#chunks({ snapshot, meta }: SnapshotRow): Generator<Buffer> {
    for (let place = 0; place < meta.chunks; place++) {
      const chunk = this.#chunk(snapshot * CHUNKS_MAX + place)
      if (chunk === undefined || this.#chunkCrc(snapshot, place, chunk.payload) !== chunk.crc) {
        throw corrupt(
          `${this.#path}: chunk ${place} of the snapshot of ${meta.marketId} is damaged or missing`,
        )
      }
      yield chunk.payload
    }
  }

  #chunk(id: number): { crc: number; payload: Buffer } | undefined {
    try {
      return this.#selectChunk.get(id) as { crc: number; payload: Buffer } | undefined
    } catch (error) {
      throw sqliteFault('LOG_READ_FAILED', this.#path, error)
    }
  }

  insertChunk(snapshot: number, place: number, payload: Buffer): void {
    if (place >= CHUNKS_MAX) throw new RangeError('a snapshot has at most a million chunks')
    const crc = this.#chunkCrc(snapshot, place, payload)
    this.#insertChunk.run(snapshot * CHUNKS_MAX + place, crc, payload)
  }

  put({ snapshot, meta, crc }: SnapshotRow): void {
    const { marketId, atOffset, seq, chunks, bytes } = meta
    this.#put.run(marketId, snapshot, atOffset, seq, chunks, bytes, crc)
  }

  delete(marketId: MarketId): void {
    this.#delete.run(marketId)
  }

  /** The row is durable: it is the market's snapshot now, and the old one's chunks may go. */
  published(row: SnapshotRow, old: SnapshotRow | undefined): void {
    this.#rows.set(row.meta.marketId, row)
    if (old !== undefined) this.#orphans.add(old.snapshot)
  }

  /** The row is durably gone. */
  removed(row: SnapshotRow): void {
    this.#rows.delete(row.meta.marketId)
    this.#orphans.add(row.snapshot)
  }

  orphan(snapshot: number): void {
    this.#orphans.add(snapshot)
  }

  get hasOrphans(): boolean {
    return this.#orphans.size > 0
  }

  /** Removes up to `limit` chunks that belong to no snapshot, within the caller's transaction. */
  sweep(limit: number): number {
    let swept = 0
    for (const snapshot of this.#orphans) {
      const from = snapshot * CHUNKS_MAX
      swept += this.#deleteChunks.run(from, from + CHUNKS_MAX, limit - swept).changes
      if (swept >= limit) break
      // Should the transaction fail, the next open finds what is left of it.
      this.#orphans.delete(snapshot)
    }
    return swept
  }

  #chunkCrc(snapshot: number, place: number, payload: Buffer): number {
    return rowCrc('snapshot_chunks', this.#home, [snapshot, place], payload)
  }
}
