/**
 * Encodes a batch of events as rows of at most a few megabytes. A row has a JSON array with one event per line, a
 * version number, and a CRC-32 over the row's identity and bytes. Only the current version is written; rows of older
 * versions are converted when they are read.
 */

import assert from 'node:assert/strict'
import { crc32 } from 'node:zlib'
import { Fault } from '#domain/fault.ts'
import type { EventForm, LogEvent, LogRecord, LogRow } from '../event-log.ts'
import { JsonBytes } from '../json-bytes.ts'

export const RECORD_VERSION = 2

/** A row ends when it reaches this size, so that reading it needs little memory. */
const ROW_BYTES_MAX = 4 * 1024 * 1024
const ROW_EVENTS_MAX = 4_096

/** Converts an event of one version to the next. */
type Upcaster = (event: unknown) => unknown

/** Upcasters by the version that they convert; there is one for every version below the current. */
export type Upcasters = ReadonlyMap<number, Upcaster>

export const UPCASTERS: Upcasters = new Map([
  // Version 2 added a shorter form for frequent events. The reader accepts both forms, so nothing is converted.
  [1, (event: unknown) => event],
])

export type BatchRow = {
  readonly first_offset: number
  readonly count: number
  readonly version: number
  readonly crc: number
  readonly payload: Buffer
}

/** The file that a row belongs to. It is part of the checksum, so that rows cannot be exchanged between files. */
export type RowHome = { readonly logId: string; readonly partition: number }

/**
 * Returns the checksum of a row. It covers the row's table, its file, its fields with their types, and its bytes. The
 * types matter, because one flipped bit can make SQLite return a text as bytes with the same content.
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

/**
 * Checksum of a row whose payload is not a buffer. Stored checksums are never negative, so this row always counts as
 * damaged.
 */
const NO_CRC = -1

export function batchCrc(home: RowHome, row: Omit<BatchRow, 'crc'>): number {
  return rowCrc('batches', home, [row.first_offset, row.count, row.version], row.payload)
}

/** Events as plain JSON. */
export const WHOLE: EventForm<LogEvent> = {
  write: (event, _before, into) => into.json(event),
  read: (row) => row as LogEvent[],
}

/** Encodes batches into a reused buffer; a row is valid until the next row is encoded. */
export class BatchEncoder {
  readonly #text = new JsonBytes()

  /** Calls `each` with the rows of the batch, in order. The payload of a row is valid only during the call. */
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
    // Loop by index, here and in the writers of events. Inside `for … of`, V8 does not inline fast calls, and writing
    // takes 1.5 times as long as with an index.
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

  /** Ends the current row and begins the next one. */
  #row(home: RowHome, firstOffset: number, count: number): BatchRow {
    this.#text.raw('\n]')
    const payload = this.#text.bytes
    this.#text.clear()
    const row = { first_offset: firstOffset, count, version: RECORD_VERSION, payload }
    return { ...row, crc: batchCrc(home, row) }
  }
}

/** Returns the records of a row, converted to the current version; throws a fault if anything is wrong. */
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
      `partition ${home.partition}: the record at offset ${row.first_offset} has version ` +
        `${row.version}, but this program reads only versions up to ${RECORD_VERSION}: start the ` +
        'newer version that wrote the record',
      { retryable: false },
    )
  }
  let stored: unknown = parsed(home, row)
  for (let version = row.version; version < RECORD_VERSION; version++) {
    const upcast = upcasters.get(version)
    if (upcast === undefined) {
      throw new Fault(
        'LOG_VERSION_UNKNOWN',
        `this program cannot convert log records of version ${version}`,
        {
          retryable: false,
        },
      )
    }
    stored = (stored as unknown[]).map(upcast)
  }
  const events = readAs(form, stored as unknown[], home, row)
  return events.map((event, index) => ({ offset: row.first_offset + index, event }))
}

/** Returns a row with its events in the current form. The payload has the same bytes at every read. */
export function currentRow<Event extends LogEvent>(
  home: RowHome,
  row: BatchRow,
  upcasters: Upcasters,
  form: EventForm<Event>,
): LogRow {
  const records = row.version === RECORD_VERSION ? [] : decodeBatch(home, row, upcasters, form)
  if (records.length === 0 && batchCrc(home, row) !== row.crc) {
    throw corrupt(`partition ${home.partition}: the batch at offset ${row.first_offset} is damaged`)
  }
  const { first_offset: first, count } = row
  if (records.length === 0) return { first, count, payload: row.payload }
  const payloads: Buffer[] = []
  const events = records.map(({ event }) => event)
  new BatchEncoder().encode({ home, firstOffset: first }, events, form, ({ payload }) => {
    payloads.push(Buffer.from(payload))
  })
  assert.equal(payloads.length, 1, 'the events of a converted row must fit in one row')
  return { first, count, payload: payloads[0]! }
}

/**
 * Parses the events of a row whose checksum is right. If parsing fails, the row was already wrong when it was written.
 */
function parsed(home: RowHome, row: BatchRow): unknown[] {
  try {
    const stored: unknown = JSON.parse(row.payload.toString('utf8'))
    assert(Array.isArray(stored) && stored.length === row.count, 'its number of events is wrong')
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
