/**
 * The table of closed orders: 128 bytes for each, in rows of the append that closed them, and the
 * index in memory that finds them. Rows change within the caller's transaction; the index follows
 * by `apply`, once that transaction has committed.
 */

import assert from 'node:assert/strict'
import type BetterSqlite3 from 'better-sqlite3'
import type { OrderHash } from '#domain/ids.ts'
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
import type { ClosedOrder } from './event-log.ts'
import { corrupt, type RowHome, rowCrc } from './record.ts'
import { checkTally, EMPTY, type FileState, minus, plus, type Tally } from './schema.ts'

/** Closed orders in one row of their table. */
const ROW_ORDERS_MAX = 4_096

type ClosedRow = { id: number; forget_min_sec: number; crc: number; payload: Buffer }
type IndexEntry = { readonly fingerprint: number; readonly row: number }

/** What a transaction changes in the index, if it commits. */
export class IndexChanges {
  readonly added: IndexEntry[] = []
  readonly removed: IndexEntry[] = []
}

export class ClosedTable {
  readonly #home: RowHome
  readonly #path: string
  readonly #index = new ClosedIndex()
  /** The row up to which the walk of `due` has come. */
  #cursor = 0
  readonly #insert: BetterSqlite3.Statement
  readonly #select: BetterSqlite3.Statement
  readonly #update: BetterSqlite3.Statement
  readonly #delete: BetterSqlite3.Statement
  readonly #walk: BetterSqlite3.Statement

  /** Reads and checks all of the table. */
  constructor(db: BetterSqlite3.Database, home: RowHome, stated: Tally, path: string) {
    this.#home = home
    this.#path = path
    const columns = 'id, forget_min_sec, crc, payload'
    this.#insert = db.prepare('INSERT INTO closed_orders VALUES (?, ?, ?, ?)')
    this.#select = db.prepare(`SELECT ${columns} FROM closed_orders WHERE id = ?`)
    this.#update = db.prepare(
      'UPDATE closed_orders SET forget_min_sec = ?, crc = ?, payload = ? WHERE id = ?',
    )
    this.#delete = db.prepare('DELETE FROM closed_orders WHERE id = ?')
    this.#walk = db.prepare(
      'SELECT id, forget_min_sec FROM closed_orders WHERE id > ? ORDER BY id LIMIT ?',
    )
    let found = EMPTY
    const rows = db.prepare(`SELECT ${columns} FROM closed_orders`).iterate()
    for (const row of rows as Iterable<ClosedRow>) {
      this.#check(row)
      found = plus(found, row.crc)
      for (let at = 0; at < row.payload.length; at += CLOSED_ORDER_BYTES) {
        this.#index.add(fingerprintAt(row.payload, at), row.id)
      }
    }
    checkTally(found, stated, 'closed orders', path)
  }

  get size(): number {
    return this.#index.size
  }

  find(hash: OrderHash): ClosedOrder | undefined {
    const rows = this.#index.rows(fingerprintOf(hash))
    if (rows.length === 0) return undefined
    const bytes = hashBytes(hash)
    for (const id of rows) {
      const row = this.#row(id)
      if (row === undefined) throw corrupt(`${this.#path}: row ${id} of closed orders is gone`)
      const at = findClosedOrder(row.payload, bytes)
      if (at >= 0) return decodeClosedOrder(row.payload, at)
    }
    return undefined
  }

  add(orders: readonly ClosedOrder[], state: FileState, changes: IndexChanges): FileState {
    if (orders.length === 0) return state
    let { closed, closedRowLast } = state
    for (let from = 0; from < orders.length; from += ROW_ORDERS_MAX) {
      const part = orders.slice(from, from + ROW_ORDERS_MAX)
      const payload = encodeClosedOrders(part)
      const row = ++closedRowLast
      for (let index = 0; index < part.length; index++) {
        const fingerprint = fingerprintAt(payload, index * CLOSED_ORDER_BYTES)
        if (this.#index.rows(fingerprint).length > 0) {
          closed = this.drop(part[index]!.orderHash, closed, changes)
        }
        changes.added.push({ fingerprint, row })
      }
      const forgetMin = forgetMinOf(payload)
      const crc = this.#crc(row, forgetMin, payload)
      this.#insert.run(row, forgetMin, crc, payload)
      closed = plus(closed, crc)
    }
    return { ...state, closed, closedRowLast }
  }

  /** Takes one hash out of its row, if it has one. */
  drop(hash: OrderHash, closed: Tally, changes: IndexChanges): Tally {
    const bytes = hashBytes(hash)
    const fingerprint = fingerprintOf(hash)
    for (const id of new Set(this.#index.rows(fingerprint))) {
      const row = this.#row(id)
      // An earlier change of the same transaction may have emptied and removed the row.
      if (row === undefined) continue
      const at = findClosedOrder(row.payload, bytes)
      if (at < 0) continue
      changes.removed.push({ fingerprint, row: id })
      const rest = Buffer.concat([
        row.payload.subarray(0, at),
        row.payload.subarray(at + CLOSED_ORDER_BYTES),
      ])
      return this.#replace(row, rest, closed)
    }
    return closed
  }

  /** The next `limit` rows of the walk that hold something to forget, and where the walk then is. */
  due(nowSec: number, limit: number): { rows: number[]; cursor: number } {
    const rows = this.#walk.all(this.#cursor, limit) as { id: number; forget_min_sec: number }[]
    return {
      rows: rows.filter((row) => row.forget_min_sec < nowSec).map((row) => row.id),
      cursor: rows.length < limit ? 0 : (rows.at(-1)?.id ?? 0),
    }
  }

  walkedTo(cursor: number): void {
    this.#cursor = cursor
  }

  /** Removes from a row what may be forgotten. */
  forget(id: number, nowSec: number, closed: Tally, changes: IndexChanges): Tally {
    const row = this.#row(id)
    assert(row !== undefined, 'a row that was just listed is there')
    const kept: Buffer[] = []
    for (let at = 0; at < row.payload.length; at += CLOSED_ORDER_BYTES) {
      if (forgetAfterSecAt(row.payload, at) < nowSec) {
        changes.removed.push({ fingerprint: fingerprintAt(row.payload, at), row: id })
      } else {
        kept.push(row.payload.subarray(at, at + CLOSED_ORDER_BYTES))
      }
    }
    return this.#replace(row, Buffer.concat(kept), closed)
  }

  /** The changes are durable. */
  apply({ added, removed }: IndexChanges): void {
    for (const { fingerprint, row } of removed) this.#index.remove(fingerprint, row)
    for (const { fingerprint, row } of added) this.#index.add(fingerprint, row)
  }

  #replace(row: ClosedRow, rest: Buffer, closed: Tally): Tally {
    const without = minus(closed, row.crc)
    if (rest.length === 0) {
      this.#delete.run(row.id)
      return without
    }
    const forgetMin = forgetMinOf(rest)
    const crc = this.#crc(row.id, forgetMin, rest)
    this.#update.run(forgetMin, crc, rest, row.id)
    return plus(without, crc)
  }

  #row(id: number): ClosedRow | undefined {
    const row = this.#select.get(id) as ClosedRow | undefined
    if (row !== undefined) this.#check(row)
    return row
  }

  #check(row: ClosedRow): void {
    if (this.#crc(row.id, row.forget_min_sec, row.payload) !== row.crc) {
      throw corrupt(`${this.#path}: row ${row.id} of the closed orders is damaged`)
    }
  }

  #crc(id: number, forgetMinSec: number, payload: Buffer): number {
    return rowCrc('closed_orders', this.#home, [id, forgetMinSec], payload)
  }
}

function hashBytes(hash: OrderHash): Buffer {
  return Buffer.from(hash.slice(2), 'hex')
}

function forgetMinOf(payload: Buffer): number {
  let min = Number.MAX_SAFE_INTEGER
  for (let at = 0; at < payload.length; at += CLOSED_ORDER_BYTES) {
    min = Math.min(min, forgetAfterSecAt(payload, at))
  }
  return min
}
