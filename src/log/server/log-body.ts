/**
 * Encodes and decodes the bytes of one row of a log in a database server. A row is a batch or a fence. A batch contains
 * its events and everything that becomes durable with them. An owner inserts a fence to take over the partition.
 *
 *   fence  u8 2 | 16 random bytes
 *   batch  u8 1 | u32 length | head, JSON | closed orders, 128 bytes each | each group of events: u32 length | bytes
 *
 * A group of events has the format of a row in `record.ts`. Numbers are big-endian.
 */

import { randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { OrderHash } from '#domain/ids.ts'
import {
  CLOSED_ORDER_BYTES,
  decodeClosedOrder,
  encodeClosedOrders,
} from '../closed/closed-order.ts'
import type { EventForm, LogBatch, LogEvent, TradeState } from '../event-log.ts'
import {
  type BatchEncoder,
  batchCrc,
  corrupt,
  decodeBatch,
  RECORD_VERSION,
  type RowHome,
  type Upcasters,
} from '../partition/record.ts'

const BATCH = 1
const FENCE = 2
const MARK_BYTES = 16

type Head = {
  readonly version: number
  readonly nowMs: number
  /** Number of events in each row. */
  readonly rows: readonly number[]
  readonly closed?: number
  readonly reopened?: readonly OrderHash[]
  readonly trades?: readonly TradeState[]
  readonly meta?: Readonly<Record<string, string>>
}

export function newFence(): Buffer {
  return Buffer.concat([Buffer.of(FENCE), randomBytes(MARK_BYTES)])
}

export function isFence(body: Buffer): boolean {
  return body[0] === FENCE && body.length === 1 + MARK_BYTES
}

/**
 * Returns the checksum of a row. It covers the row's bytes and, through the previous row's checksum, all rows before.
 */
export function chainedCrc(before: number, body: Buffer): number {
  return crc32(body, before)
}

/** The partition of a row, and the offset of the first event in the row's body. */
type BodyPlace = { readonly home: RowHome; readonly firstOffset: number }

export function encodeBody<Event extends LogEvent>(
  encoder: BatchEncoder,
  place: BodyPlace,
  batch: LogBatch<Event>,
  form: EventForm<Event>,
): Buffer {
  const rows: number[] = []
  const parts: Buffer[] = []
  encoder.encode(place, batch.events, form, ({ count, payload }) => {
    rows.push(count)
    // The row is copied, because the encoder reuses its buffer for the next row.
    parts.push(lengthOf(payload), Buffer.from(payload))
  })
  const { closed = [], reopened = [], trades = [], meta } = batch
  const head: Head = {
    ...{ version: RECORD_VERSION, nowMs: batch.nowMs, rows },
    ...(closed.length === 0 ? {} : { closed: closed.length }),
    ...(reopened.length === 0 ? {} : { reopened }),
    ...(trades.length === 0 ? {} : { trades }),
    ...(meta === undefined ? {} : { meta }),
  }
  const text = Buffer.from(JSON.stringify(head))
  return Buffer.concat([
    Buffer.of(BATCH),
    lengthOf(text),
    text,
    encodeClosedOrders(closed),
    ...parts,
  ])
}

function lengthOf(bytes: Uint8Array): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(bytes.length)
  return length
}

/**
 * Returns the batch that the bytes of a row encode. Throws if the bytes cannot be decoded. Their checksum has already
 * been verified, so such bytes were already wrong when the row was written.
 */
export function decodeBody<Event extends LogEvent>(
  body: Buffer,
  { home, firstOffset }: BodyPlace,
  { form, upcasters }: { readonly form: EventForm<Event>; readonly upcasters: Upcasters },
): LogBatch<Event> {
  try {
    if (body[0] !== BATCH) throw new Error(`unknown kind ${body[0]}`)
    let at = 5 + body.readUInt32BE(1)
    const head = JSON.parse(body.toString('utf8', 5, at)) as Head
    const closed = Array.from({ length: head.closed ?? 0 }, (_, index) =>
      decodeClosedOrder(body, at + index * CLOSED_ORDER_BYTES),
    )
    at += closed.length * CLOSED_ORDER_BYTES
    const events: Event[] = []
    for (const count of head.rows) {
      const length = body.readUInt32BE(at)
      const payload = body.subarray(at + 4, at + 4 + length)
      const row = {
        first_offset: firstOffset + events.length,
        count,
        version: head.version,
        payload,
      }
      const whole = { ...row, crc: batchCrc(home, row) }
      for (const { event } of decodeBatch(home, whole, upcasters, form)) events.push(event)
      at += 4 + length
    }
    if (at !== body.length) throw new Error('the row has bytes after its last event')
    const { nowMs, reopened, trades, meta } = head
    return {
      ...{ events, nowMs, closed },
      ...(reopened === undefined ? {} : { reopened }),
      ...(trades === undefined ? {} : { trades }),
      ...(meta === undefined ? {} : { meta }),
    }
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw corrupt(`a row of the log cannot be read: ${why}`, error)
  }
}
