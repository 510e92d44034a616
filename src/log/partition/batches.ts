/**
 * Reads records from a partition's file, for its owner and for readers in other threads. The reader checks
 * every row and its offset: a gap between two rows, or a row that extends beyond the last offset, is a
 * fault.
 */

import type BetterSqlite3 from 'better-sqlite3'
import { Fault } from '#domain/fault.ts'
import type { EventForm, LogEvent, LogRecord, LogRow } from '../event-log.ts'
import {
  type BatchRow,
  corrupt,
  currentRow,
  decodeBatch,
  type RowHome,
  type Upcasters,
} from './record.ts'
import { parseState, STATE_SELECT } from './schema.ts'

export class BatchReader<Event extends LogEvent> {
  readonly #home: RowHome
  readonly #path: string
  readonly #upcasters: Upcasters
  readonly #form: EventForm<Event>
  readonly #db: BetterSqlite3.Database
  readonly #state: BetterSqlite3.Statement
  readonly #around: BetterSqlite3.Statement
  readonly #at: BetterSqlite3.Statement
  /** The decoded row in which the last read stopped. It is kept so that the next read need not decode the row again. */
  #half: { first: number; records: LogRecord<Event>[] } | undefined

  constructor(
    db: BetterSqlite3.Database,
    path: string,
    home: RowHome,
    { upcasters, form }: { readonly upcasters: Upcasters; readonly form: EventForm<Event> },
  ) {
    this.#db = db
    this.#path = path
    this.#home = home
    this.#upcasters = upcasters
    this.#form = form
    this.#state = db.prepare(STATE_SELECT)
    const columns = 'first_offset, count, version, crc, payload'
    this.#around = db.prepare(
      `SELECT ${columns} FROM batches WHERE first_offset <= ? ORDER BY first_offset DESC LIMIT 1`,
    )
    this.#at = db.prepare(`SELECT ${columns} FROM batches WHERE first_offset = ?`)
  }

  firstOffset(): number {
    return parseState(this.#state.get(), this.#path).firstOffset
  }

  lastOffset(): number {
    return parseState(this.#state.get(), this.#path).lastOffset
  }

  read(fromOffset: number, limit: number): LogRecord<Event>[] {
    if (limit <= 0) return []
    const half = this.#half
    this.#half = undefined
    const records: LogRecord<Event>[] = []
    let next = fromOffset
    if (half !== undefined && next >= half.first && next < half.first + half.records.length) {
      next = this.#take(half, next, limit, records)
    }
    if (records.length < limit) {
      for (const row of this.#rows(next, limit - records.length)) {
        const decoded = decodeBatch(this.#home, row, this.#upcasters, this.#form)
        next = this.#take({ first: row.first_offset, records: decoded }, next, limit, records)
      }
    }
    return records
  }

  readRows(fromOffset: number, limit: number): LogRow[] {
    const rows = this.#rows(fromOffset, limit)
    const [first] = rows
    if (first !== undefined && first.first_offset !== fromOffset) {
      throw corrupt(`${this.#path}: no row begins at offset ${fromOffset}`)
    }
    return rows.map((row) => currentRow(this.#home, row, this.#upcasters, this.#form))
  }

  #take(
    batch: { first: number; records: LogRecord<Event>[] },
    next: number,
    limit: number,
    into: LogRecord<Event>[],
  ): number {
    const { first, records } = batch
    const start = next - first
    const end = Math.min(records.length, start + limit - into.length)
    for (let index = start; index < end; index++) into.push(records[index]!)
    if (end < records.length) this.#half = batch
    return first + end
  }

  /** Returns the rows that contain `limit` records from `fromOffset` on, in one read transaction. */
  #rows(fromOffset: number, limit: number): BatchRow[] {
    const rows: BatchRow[] = []
    // If the owner calls this within its own transaction, do not begin another one.
    const own = !this.#db.inTransaction
    if (own) this.#db.exec('BEGIN')
    try {
      const { firstOffset, lastOffset } = parseState(this.#state.get(), this.#path)
      if (fromOffset < firstOffset) {
        throw new Fault(
          'LOG_TRUNCATED',
          `${this.#path} begins at offset ${firstOffset}, but offset ${fromOffset} was ` +
            'requested: older events were removed from the log; npm run rebuild reads them from ' +
            'the archive',
          { retryable: false },
        )
      }
      if (fromOffset > lastOffset + 1) {
        throw new Fault(
          'LOG_BEYOND_END',
          `${this.#path} ends at offset ${lastOffset}, but ${fromOffset} was requested: ` +
            'the reader has seen records that this log does not have',
          { retryable: false },
        )
      }
      let next = fromOffset
      while (next <= lastOffset && next - fromOffset < limit) {
        const row = (next === fromOffset ? this.#around : this.#at).get(next) as
          | BatchRow
          | undefined
        if (row === undefined || next >= row.first_offset + row.count) {
          throw corrupt(
            `${this.#path}: offset ${next} is missing, although the file ends at offset ${lastOffset}`,
          )
        }
        rows.push(row)
        next = row.first_offset + row.count
      }
      if (next > lastOffset + 1) {
        throw corrupt(
          `${this.#path}: a batch extends beyond the last offset of the file, ${lastOffset}`,
        )
      }
    } finally {
      if (own) this.#db.exec('COMMIT')
    }
    return rows
  }
}
