/**
 * Closed orders of a partition, 128 bytes each, with an index in memory. Each append adds a row with the orders that it
 * closed. When there are many rows, `closed-keeper.ts` freezes them and moves them into a run (a sorted file,
 * `closed-runs.ts`) in small steps.
 *
 * If a hash has several entries, the newest is valid. Rows that are not frozen are newer than frozen rows, and frozen
 * rows are newer than runs.
 *
 * Rows change within the caller's transaction. After this transaction has committed, `apply` updates the index.
 */

import assert from 'node:assert/strict'
import type BetterSqlite3 from 'better-sqlite3'
import type { OrderHash } from '#domain/ids.ts'
import { partsOf } from '#domain/parts-of.ts'
import type { ClosedOrder } from '../event-log.ts'
import { corrupt, type RowHome, rowCrc } from '../partition/record.ts'
import { checkTally, EMPTY, type FileState, minus, plus, type Tally } from '../partition/schema.ts'
import { ClosedIndex } from './closed-index.ts'
import {
  CLOSED_ORDER_BYTES,
  decodeClosedOrder,
  encodeClosedOrders,
  encodeReopened,
  fingerprintAt,
  fingerprintOf,
  forgetAfterSecAt,
  hashKeyOf,
  isReopenedAt,
  orderHashAt,
} from './closed-order.ts'
import type { ClosedRuns } from './closed-runs.ts'

/**
 * Closed orders per row. A lookup reads and checks a whole row, so rows are small: 32 KiB. Files may have older rows of
 * up to 4,096 orders.
 */
const ROW_ORDERS_MAX = 256
/**
 * `due` stops its search when the rows that it has found contain at least this many orders. So one step of forgetting
 * takes only a few milliseconds.
 */
const FORGET_ORDERS_MAX = 2_048

type ClosedRow = { id: number; forget_min_sec: number; crc: number; payload: Buffer }

/**
 * Hashes to find in one row, grouped by fingerprint. The numbers are the positions of a hash in the caller's list of
 * hashes.
 */
type Wanted = Map<number, Map<OrderHash, number[]>>

type Due = {
  readonly rows: readonly number[]
  /** Last row that the step searched, where the next step continues; 0 if the step reached the end of the table. */
  readonly cursor: number
  /** True if the step stopped at its limit. The next step should then follow soon. */
  readonly more: boolean
}

/**
 * Entries of the index, as two arrays of equal length. An append may add thousands of entries, and one object per entry
 * would cost more.
 */
class IndexEntries {
  readonly fingerprints: number[] = []
  readonly rows: number[] = []

  get count(): number {
    return this.rows.length
  }

  push(fingerprint: number, row: number): void {
    this.fingerprints.push(fingerprint)
    this.rows.push(row)
  }
}

/** Changes to the index that a transaction makes if it commits. */
export class IndexChanges {
  readonly added = new IndexEntries()
  readonly removed = new IndexEntries()
}

export class ClosedTable {
  readonly #home: RowHome
  readonly #path: string
  readonly runs: ClosedRuns
  #index = new ClosedIndex()
  /** Rows up to and including `to` are being moved into a run; they no longer change. */
  #frozen: { readonly index: ClosedIndex; readonly to: number } | undefined
  /** Rows up to and including this row number are in a run. They are removed from the table in small steps. */
  #spilledTo: number
  #hasSpilled = false
  /** `#cursor`: last row that `due` has searched. `#forgottenSec`: latest second passed to `due`. */
  #cursor = 0
  #forgottenSec = 0
  readonly #insert: BetterSqlite3.Statement
  readonly #select: BetterSqlite3.Statement
  readonly #update: BetterSqlite3.Statement
  readonly #delete: BetterSqlite3.Statement
  readonly #walk: BetterSqlite3.Statement
  readonly #oldest: BetterSqlite3.Statement
  readonly #deleteTo: BetterSqlite3.Statement

  /** Reads and checks the whole table, without the runs. */
  constructor(
    db: BetterSqlite3.Database,
    { home, path }: { readonly home: RowHome; readonly path: string },
    stated: Pick<FileState, 'closed' | 'closedSpilledTo'>,
    runs: ClosedRuns,
  ) {
    this.#home = home
    this.#path = path
    this.runs = runs
    this.#spilledTo = stated.closedSpilledTo
    const columns = 'id, forget_min_sec, crc, payload'
    this.#insert = db.prepare('INSERT INTO closed_orders VALUES (?, ?, ?, ?)')
    this.#select = db.prepare(`SELECT ${columns} FROM closed_orders WHERE id = ?`)
    this.#update = db.prepare(
      'UPDATE closed_orders SET forget_min_sec = ?, crc = ?, payload = ? WHERE id = ?',
    )
    this.#delete = db.prepare('DELETE FROM closed_orders WHERE id = ?')
    this.#walk = db.prepare(
      'SELECT id, forget_min_sec, length(payload) AS bytes FROM closed_orders ' +
        'WHERE id > ? ORDER BY id LIMIT ?',
    )
    this.#oldest = db.prepare(
      'SELECT id, crc, length(payload) AS bytes FROM closed_orders WHERE id <= ? ORDER BY id LIMIT ?',
    )
    this.#deleteTo = db.prepare('DELETE FROM closed_orders WHERE id <= ?')
    let found = EMPTY
    const spilled = db.prepare('SELECT crc FROM closed_orders WHERE id <= ?').pluck()
    for (const crc of spilled.iterate(this.#spilledTo) as Iterable<number>) {
      found = plus(found, crc)
      this.#hasSpilled = true
    }
    const rows = db
      .prepare(`SELECT ${columns} FROM closed_orders WHERE id > ?`)
      .iterate(this.#spilledTo)
    for (const row of rows as Iterable<ClosedRow>) {
      this.#check(row)
      found = plus(found, row.crc)
      for (let at = 0; at < row.payload.length; at += CLOSED_ORDER_BYTES) {
        this.#index.add(fingerprintAt(row.payload, at), row.id)
      }
    }
    checkTally(found, stated.closed, 'closed orders', path)
  }

  /** Number of orders in the index. Orders of rows that are already in a run are not counted. */
  get size(): number {
    return this.#index.size + (this.#frozen?.index.size ?? 0)
  }

  /**
   * Returns the closed order of each hash, in the order of `hashes`; undefined if there is none. Reads a row
   * with several of the orders only once.
   */
  find(hashes: readonly OrderHash[]): (ClosedOrder | undefined)[] {
    const found = new Array<ClosedOrder | undefined>(hashes.length).fill(undefined)
    const known = new Set<number>()
    const take = (place: number, payload: Buffer, at: number) => {
      if (known.has(place)) return
      known.add(place)
      if (!isReopenedAt(payload, at)) found[place] = decodeClosedOrder(payload, at)
    }
    for (const [id, wanted] of this.#byRow(hashes, this.#index)) this.#findIn(id, wanted, take)
    const frozen = this.#frozen
    if (frozen !== undefined) {
      for (const [id, wanted] of this.#byRow(hashes, frozen.index)) this.#findIn(id, wanted, take)
    }
    if (this.runs.count === 0) return found
    for (let place = 0; place < hashes.length; place++) {
      if (known.has(place)) continue
      const bytes = this.runs.find(hashKeyOf(hashes[place]!), this.#forgottenSec)
      if (bytes !== undefined) take(place, bytes, 0)
    }
    return found
  }

  #findIn(
    id: number,
    wanted: Wanted,
    take: (place: number, payload: Buffer, at: number) => void,
  ): void {
    const row = this.#row(id)
    if (row === undefined) throw corrupt(`${this.#path}: row ${id} of the closed orders is missing`)
    eachOf(row.payload, wanted, (at, places) => {
      for (const place of places) take(place, row.payload, at)
    })
  }

  add(orders: readonly ClosedOrder[], state: FileState, changes: IndexChanges): FileState {
    let next = state
    for (const part of partsOf(orders, ROW_ORDERS_MAX)) {
      next = this.#addRow(encodeClosedOrders(part), (index) => part[index]!, next, changes)
    }
    return next
  }

  /**
   * Marks orders as open again. Removes their entries from rows that are not frozen. Entries in frozen rows and runs
   * cannot be removed, so a newer entry is added that overrides them.
   */
  reopen(hashes: readonly OrderHash[], state: FileState, changes: IndexChanges): FileState {
    if (hashes.length === 0) return state
    let next: FileState = { ...state, closed: this.#drop(hashes, state.closed, changes) }
    if (this.#frozen === undefined && this.runs.count === 0) return next
    const older = this.#findOlder(hashes)
    for (const part of partsOf(older, ROW_ORDERS_MAX)) {
      next = this.#addRow(encodeReopened(part), (index) => part[index]!, next, changes)
    }
    return next
  }

  /** Returns the closed orders of these hashes from frozen rows and runs; ignores rows that are not frozen. */
  #findOlder(hashes: readonly OrderHash[]): ClosedOrder[] {
    const young = this.#index
    this.#index = new ClosedIndex()
    try {
      return [...new Set(this.find(hashes))].filter((order) => order !== undefined)
    } finally {
      this.#index = young
    }
  }

  #addRow(
    payload: Buffer,
    orderOf: (index: number) => ClosedOrder,
    state: FileState,
    changes: IndexChanges,
  ): FileState {
    const row = state.closedRowLast + 1
    const again: OrderHash[] = []
    for (let at = 0; at < payload.length; at += CLOSED_ORDER_BYTES) {
      const fingerprint = fingerprintAt(payload, at)
      if (this.#index.rows(fingerprint).length > 0) {
        again.push(orderOf(at / CLOSED_ORDER_BYTES).orderHash)
      }
      changes.added.push(fingerprint, row)
    }
    const closed = this.#drop(again, state.closed, changes)
    const forgetMin = forgetMinOf(payload)
    const crc = this.#crc(row, forgetMin, payload)
    this.#insert.run(row, forgetMin, crc, payload)
    return { ...state, closed: plus(closed, crc), closedRowLast: row }
  }

  /**
   * Removes the hashes of these orders from the rows that contain them, except from frozen rows, within the caller's
   * transaction. Returns the tally of the hashes that are left.
   */
  #drop(hashes: readonly OrderHash[], closed: Tally, changes: IndexChanges): Tally {
    let rest = closed
    for (const [id, wanted] of this.#byRow(hashes, this.#index)) {
      const row = this.#row(id)
      // An earlier change of the same transaction may have emptied and removed the row.
      if (row === undefined) continue
      const dropped = new Set<number>()
      eachOf(row.payload, wanted, (at) => dropped.add(at))
      if (dropped.size > 0) rest = this.#remove(row, rest, changes, (at) => dropped.has(at))
    }
    return rest
  }

  get isFrozen(): boolean {
    return this.#frozen !== undefined
  }

  get frozenTo(): number {
    return this.#frozen?.to ?? this.#spilledTo
  }

  /**
   * Freezes rows up to and including `to` until they are in a run. If rows are frozen already, freezes no
   * others. Returns the range of the frozen rows: after `from`, up to and including `to`.
   */
  freeze(to: number): { readonly from: number; readonly to: number } {
    if (this.#frozen === undefined) {
      this.#frozen = { index: this.#index, to }
      this.#index = new ClosedIndex()
    }
    return { from: this.#spilledTo, to: this.#frozen.to }
  }

  /** Marks the frozen rows as moved. Call it when their orders are durable in a run. */
  spilled(): void {
    this.#spilledTo = this.frozenTo
    this.#frozen = undefined
    this.#hasSpilled = true
  }

  /** True if rows that are in a run may still be in the table. */
  get hasSpilled(): boolean {
    return this.#hasSpilled
  }

  /** Removes some of the rows whose orders are in a run, within the caller's transaction. */
  removeSpilled(
    rowsMax: number,
    ordersMax: number,
    closed: Tally,
  ): { removed: number; closed: Tally } {
    const rows = this.#oldest.all(this.#spilledTo, rowsMax) as {
      id: number
      crc: number
      bytes: number
    }[]
    let rest = closed
    let removed = 0
    for (
      let bytes = 0;
      removed < rows.length && bytes < ordersMax * CLOSED_ORDER_BYTES;
      removed++
    ) {
      rest = minus(rest, rows[removed]!.crc)
      bytes += rows[removed]!.bytes
    }
    if (removed > 0) this.#deleteTo.run(rows[removed - 1]!.id)
    return { removed, closed: rest }
  }

  spilledGone(): void {
    this.#hasSpilled = false
  }

  /** Searches the next rows, at most `limit`, and returns the rows that have orders to forget. */
  due(nowSec: number, limit: number): Due {
    this.#forgottenSec = Math.max(this.#forgottenSec, nowSec)
    const walked = this.#walk.all(Math.max(this.#cursor, this.frozenTo), limit) as {
      id: number
      forget_min_sec: number
      bytes: number
    }[]
    const rows: number[] = []
    let orders = 0
    for (const { id, forget_min_sec: forgetMinSec, bytes } of walked) {
      if (forgetMinSec >= nowSec) continue
      rows.push(id)
      orders += bytes / CLOSED_ORDER_BYTES
      if (orders >= FORGET_ORDERS_MAX) return { rows, cursor: id, more: true }
    }
    return { rows, cursor: walked.length < limit ? 0 : walked.at(-1)!.id, more: false }
  }

  walkedTo(cursor: number): void {
    this.#cursor = cursor
  }

  /** Removes those orders of a row that are past their `forgetAfterSec`. */
  forget(id: number, nowSec: number, closed: Tally, changes: IndexChanges): Tally {
    const row = this.#row(id)
    assert(row !== undefined, 'a listed row of closed orders does not exist')
    return this.#remove(row, closed, changes, (at) => forgetAfterSecAt(row.payload, at) < nowSec)
  }

  /** Applies the changes to the index. Call it when they are durable. */
  apply({ added, removed }: IndexChanges): void {
    for (let at = 0; at < removed.count; at++) {
      this.#index.remove(removed.fingerprints[at]!, removed.rows[at]!)
    }
    for (let at = 0; at < added.count; at++) {
      this.#index.add(added.fingerprints[at]!, added.rows[at]!)
    }
  }

  /** Groups the hashes by rows that may contain them, newest row first. */
  #byRow(hashes: readonly OrderHash[], index: ClosedIndex): Map<number, Wanted> {
    const byRow = new Map<number, Wanted>()
    for (let place = 0; place < hashes.length; place++) {
      const hash = hashes[place]!
      const fingerprint = fingerprintOf(hash)
      const rows = index.rows(fingerprint)
      // Usually the hash is new, and the index has no row for it.
      if (rows.length === 0) continue
      for (const id of new Set(rows)) {
        const wanted = byRow.get(id) ?? new Map<number, Map<OrderHash, number[]>>()
        byRow.set(id, wanted)
        const asked = wanted.get(fingerprint) ?? new Map<OrderHash, number[]>()
        wanted.set(fingerprint, asked)
        const places = asked.get(hash)
        if (places === undefined) asked.set(hash, [place])
        else places.push(place)
      }
    }
    if (byRow.size < 2) return byRow
    return new Map([...byRow].sort(([a], [b]) => b - a))
  }

  #remove(
    row: ClosedRow,
    closed: Tally,
    changes: IndexChanges,
    goes: (at: number) => boolean,
  ): Tally {
    const kept: Buffer[] = []
    for (let at = 0; at < row.payload.length; at += CLOSED_ORDER_BYTES) {
      if (goes(at)) {
        changes.removed.push(fingerprintAt(row.payload, at), row.id)
      } else {
        kept.push(row.payload.subarray(at, at + CLOSED_ORDER_BYTES))
      }
    }
    const without = minus(closed, row.crc)
    if (kept.length === 0) {
      this.#delete.run(row.id)
      return without
    }
    const rest = Buffer.concat(kept)
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

/**
 * Calls `found` for each wanted order of a row, with the order's byte offset in the row and its positions in
 * the request.
 */
function eachOf(
  payload: Buffer,
  wanted: Wanted,
  found: (at: number, places: readonly number[]) => void,
): void {
  for (let at = 0; at < payload.length; at += CLOSED_ORDER_BYTES) {
    const asked = wanted.get(fingerprintAt(payload, at))
    if (asked === undefined) continue
    const places = asked.get(orderHashAt(payload, at))
    if (places !== undefined) found(at, places)
  }
}

function forgetMinOf(payload: Buffer): number {
  let min = Number.MAX_SAFE_INTEGER
  for (let at = 0; at < payload.length; at += CLOSED_ORDER_BYTES) {
    min = Math.min(min, forgetAfterSecAt(payload, at))
  }
  return min
}
