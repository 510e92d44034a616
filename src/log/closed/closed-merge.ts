/**
 * Merges rows of the table of closed orders, or several runs (sorted files), into one new run. It runs in its own
 * thread (`background-thread.ts`), reads only data that no other thread changes, and writes a new file.
 */

import { rmSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { corrupt, type RowHome, rowCrc } from '../partition/record.ts'
import { CLOSED_ORDER_BYTES, forgetAfterSecAt, isReopenedAt } from './closed-order.ts'
import { ClosedRun, type RunMeta, RunWriter } from './closed-run.ts'

export type MergeJob = {
  /** Folder of the runs, and name of the new file in it. */
  readonly folder: string
  readonly name: string
  readonly home: RowHome
  readonly level: number
  readonly seeds: RunMeta['seeds']
  /** Source of the merge: rows of the table after `from`, up to and including `to`; or runs, newest first. */
  readonly source: { database: string; from: number; to: number } | { runs: readonly RunMeta[] }
  /** Current Unix second. Orders whose `forgetAfterSec` is earlier are left out of the new run. */
  readonly nowSec: number
  /** True if no older run exists. Markers of reopened orders then override nothing and are dropped. */
  readonly isOldest: boolean
}

/**
 * Writes the new run. Returns the description of the run when its file is durable, or undefined if no order is left.
 * The run is used only after the partition's table names it.
 */
export function mergeClosed(job: MergeJob): RunMeta | undefined {
  const path = join(job.folder, job.name)
  const sorted: Cursor[] = []
  try {
    if (!('runs' in job.source)) sorted.push(ofRows(job, job.source))
    else for (const meta of job.source.runs) sorted.push(ofRun(job, meta))
    const ordersMax = sorted.reduce((sum, { orders }) => sum + orders, 0)
    if (ordersMax === 0) return undefined
    const writer = new RunWriter(path, job.home, job, ordersMax)
    let isEnded = false
    try {
      for (const cursor of newestOfEach(sorted)) {
        const { bytes, at } = cursor
        const forgetAfterSec = forgetAfterSecAt(bytes, at)
        if (forgetAfterSec < job.nowSec || (job.isOldest && isReopenedAt(bytes, at))) continue
        writer.add(bytes, at, forgetAfterSec)
      }
      if (writer.orders === 0) return undefined
      const run = writer.end()
      isEnded = true
      return run
    } finally {
      if (!isEnded) {
        writer.abort()
        rmSync(path, { force: true })
      }
    }
  } finally {
    for (const cursor of sorted) cursor.close()
  }
}

/** Position in a list of orders sorted by hash; the current order begins at `at` in `bytes`. */
type Cursor = {
  readonly orders: number
  bytes: Buffer
  at: number
  /** Moves to the next order; returns false at the end of the list. */
  next(): boolean
  close(): void
}

/** Yields the newest entry of each hash. Cursors are ordered newest first. */
function* newestOfEach(sorted: readonly Cursor[]): Generator<Cursor> {
  let left = sorted.filter((cursor) => cursor.next())
  const last = Buffer.alloc(32)
  let isFirst = true
  while (left.length > 0) {
    let least = left[0]!
    for (let index = 1; index < left.length; index++) {
      if (compare(left[index]!, least) < 0) least = left[index]!
    }
    if (isFirst || last.compare(least.bytes, least.at, least.at + 32) !== 0) {
      yield least
      least.bytes.copy(last, 0, least.at, least.at + 32)
      isFirst = false
    }
    if (!least.next()) left = left.filter((cursor) => cursor !== least)
  }
}

function compare(a: Cursor, b: Cursor): number {
  return a.bytes.compare(b.bytes, b.at, b.at + 32, a.at, a.at + 32)
}

function ofRun({ folder, home }: MergeJob, meta: RunMeta): Cursor {
  const run = new ClosedRun(join(folder, meta.name), home, meta, { keepsFilter: false })
  let block = 0
  return {
    orders: meta.orders,
    bytes: Buffer.alloc(0) as Buffer,
    at: 0,
    next() {
      this.at += CLOSED_ORDER_BYTES
      if (this.at < this.bytes.length) return true
      if (block >= run.blocks) return false
      this.bytes = run.block(block++)
      this.at = 0
      return true
    },
    close: () => run.close(),
  }
}

/** Maximum number of rows per read, so that no read transaction on the file is long. */
const ROWS_AT_ONCE = 64

type Row = { id: number; forget_min_sec: number; crc: number; payload: Buffer }

function ofRows(
  { home }: MergeJob,
  { database, from, to }: { database: string; from: number; to: number },
): Cursor {
  const db = new Database(database, { readonly: true, fileMustExist: true, timeout: 5_000 })
  const payloads: Buffer[] = []
  try {
    const select = db.prepare(
      'SELECT id, forget_min_sec, crc, payload FROM closed_orders ' +
        'WHERE id > ? AND id <= ? ORDER BY id LIMIT ?',
    )
    for (let last = from; ; ) {
      const rows = select.all(last, to, ROWS_AT_ONCE) as Row[]
      for (const { id, forget_min_sec: forgetMinSec, crc, payload } of rows) {
        if (rowCrc('closed_orders', home, [id, forgetMinSec], payload) !== crc) {
          throw corrupt(`${database}: row ${id} of the closed orders is damaged`)
        }
        payloads.push(payload)
      }
      if (rows.length < ROWS_AT_ONCE) break
      last = rows.at(-1)!.id
    }
  } finally {
    db.close()
  }
  const all = Buffer.concat(payloads)
  const orders = all.length / CLOSED_ORDER_BYTES
  const places = sortedPlaces(all, orders)
  let place = 0
  return {
    orders,
    bytes: all,
    at: 0,
    next() {
      if (place >= orders) return false
      this.at = places[place++]! * CLOSED_ORDER_BYTES
      return true
    },
    close: () => undefined,
  }
}

/**
 * Returns the positions of the orders, sorted by hash. Among orders with the same hash, the last one comes first,
 * because it is from the newest row.
 */
function sortedPlaces(bytes: Buffer, orders: number): Uint32Array {
  const firsts = new Uint32Array(orders)
  for (let place = 0; place < orders; place++) {
    firsts[place] = bytes.readUInt32BE(place * CLOSED_ORDER_BYTES)
  }
  return Uint32Array.from({ length: orders }, (_, place) => place).sort((a, b) => {
    if (firsts[a] !== firsts[b]) return firsts[a]! - firsts[b]!
    const at = a * CLOSED_ORDER_BYTES
    const other = b * CLOSED_ORDER_BYTES
    return bytes.compare(bytes, other, other + 32, at, at + 32) || b - a
  })
}
