/**
 * How a batch of events lies in the log: rows of at most a few megabytes, each a JSON array with one
 * event per line, a version, and a CRC-32 over all that identifies the row and its bytes. It writes
 * only the current version, and brings older ones up to it on reading.
 */

import assert from 'node:assert/strict'
import { crc32 } from 'node:zlib'
import { Fault } from '#domain/fault.ts'
import type { EventForm, LogEvent, LogRecord } from '../event-log.ts'
import { JsonBytes } from '../json-bytes.ts'

export const RECORD_VERSION = 2

/** Rows are closed at this size, so that reading one back never needs more memory than a few. */
const ROW_BYTES_MAX = 4 * 1024 * 1024
const ROW_EVENTS_MAX = 4_096

/** Turns an event of one version into one of the next. */
type Upcaster = (event: unknown) => unknown

/** The upcasters by the version they take; there is one for every version below the current. */
export type Upcasters = ReadonlyMap<number, Upcaster>

export const UPCASTERS: Upcasters = new Map([
  // Since version 2 the most frequent events of a market have a shorter form; the longer is read too.
  [1, (event: unknown) => event],
])

export type BatchRow = {
  readonly first_offset: number
  readonly count: number
  readonly version: number
  readonly crc: number
  readonly payload: Buffer
}

/** Which file a row belongs to; it is part of the checksum, so that rows cannot change places. */
export type RowHome = { readonly logId: string; readonly partition: number }

/**
 * The checksum of a row: its table, its home, its fields with their types, and its bytes. The types
 * matter, because one flipped bit makes SQLite give bytes for a text of the same content.
 */
export function rowCrc(
  table: string,
  home: RowHome,
  fields: readonly (string | number)[],
  payload?: Buffer,
): number {
  const head = crc32(JSON.stringify([table, home.logId, home.partition, ...fields]))
  if (payload === undefined) return head
  return Buffer.isBuffer(payload) ? crc32(payload, head) : NO_CRC
}

/** No checksum is negative, so that a stored one can never equal it. */
const NO_CRC = -1

export function batchCrc(home: RowHome, row: Omit<BatchRow, 'crc'>): number {
  return rowCrc('batches', home, [row.first_offset, row.count, row.version], row.payload)
}

/** Events as they are. */
export const WHOLE: EventForm<LogEvent> = {
  write: (event, _before, into) => into.json(event),
  read: (row) => row as LogEvent[],
}

/** Encodes batches into bytes of its own, which it hands out only until the next row. */
export class BatchEncoder {
  readonly #text = new JsonBytes()

  /** Calls `each` with the rows of the batch, in order. The payload is valid during the call. */
  encode<Event extends LogEvent>(
    { home, firstOffset }: { readonly home: RowHome; readonly firstOffset: number },
    events: readonly Event[],
    form: EventForm<Event>,
    each: (row: BatchRow) => void,
  ): void {
    const text = this.#text
    text.clear()
    let from = firstOffset
    let count = 0
    // By index, here and in the writers: within `for … of`, which catches, V8 does not inline its fast
    // calls, and writing takes half as long again.
    for (let index = 0; index < events.length; index++) {
      text.raw(count === 0 ? '[\n' : ',\n')
      form.write(events[index]!, count === 0 ? undefined : events[index - 1], text)
      count++
      if (text.length >= ROW_BYTES_MAX || count === ROW_EVENTS_MAX) {
        each(this.#row(home, from, count))
        from += count
        count = 0
      }
    }
    if (count > 0) each(this.#row(home, from, count))
  }

  /** Ends the row and begins the next. */
  #row(home: RowHome, firstOffset: number, count: number): BatchRow {
    this.#text.raw('\n]')
    const payload = this.#text.bytes
    this.#text.clear()
    const row = { first_offset: firstOffset, count, version: RECORD_VERSION, payload }
    return { ...row, crc: batchCrc(home, row) }
  }
}

/** The records of a row, brought to the current version. Anything that does not fit is a fault. */
export function decodeBatch<Event extends LogEvent>(
  home: RowHome,
  row: BatchRow,
  upcasters: Upcasters,
  form: EventForm<Event>,
): LogRecord<Event>[] {
  if (batchCrc(home, row) !== row.crc) {
    throw corrupt(`partition ${home.partition}: the batch at offset ${row.first_offset} is damaged`)
  }
  if (row.version > RECORD_VERSION) {
    throw new Fault(
      'LOG_VERSION_UNKNOWN',
      `partition ${home.partition}: offset ${row.first_offset} has record version ${row.version}, ` +
        `this program knows versions up to ${RECORD_VERSION}`,
      { retryable: false },
    )
  }
  let stored: unknown = parsed(home, row)
  for (let version = row.version; version < RECORD_VERSION; version++) {
    const upcast = upcasters.get(version)
    if (upcast === undefined) {
      throw new Fault('LOG_VERSION_UNKNOWN', `no upcaster from record version ${version}`, {
        retryable: false,
      })
    }
    stored = (stored as unknown[]).map(upcast)
  }
  const events = readAs(form, stored as unknown[], home, row)
  return events.map((event, index) => ({ offset: row.first_offset + index, event }))
}

/** A row whose checksum fits and that cannot be read all the same was written wrong. */
function parsed(home: RowHome, row: BatchRow): unknown[] {
  try {
    const stored: unknown = JSON.parse(row.payload.toString('utf8'))
    assert(Array.isArray(stored) && stored.length === row.count, 'it has not the events it counts')
    return stored
  } catch (error) {
    throw unreadable(home, row, error)
  }
}

function readAs<Event extends LogEvent>(
  form: EventForm<Event>,
  stored: readonly unknown[],
  home: RowHome,
  row: BatchRow,
): Event[] {
  try {
    return form.read(stored)
  } catch (error) {
    throw unreadable(home, row, error)
  }
}

function unreadable({ partition }: RowHome, row: BatchRow, error: unknown): Fault {
  const why = error instanceof Error ? error.message : String(error)
  return corrupt(
    `partition ${partition}: the batch at offset ${row.first_offset} is unreadable: ${why}`,
    error,
  )
}

export function corrupt(message: string, cause?: unknown): Fault {
  return new Fault('LOG_CORRUPT', message, { retryable: false, cause })
}
