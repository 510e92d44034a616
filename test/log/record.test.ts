/**
 * Tests that records are written in this version's format, and that this format and every earlier format can be read.
 */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import type { JsonBytes } from '#log/json-bytes.ts'
import {
  BatchEncoder,
  type BatchRow,
  batchCrc,
  decodeBatch,
  RECORD_VERSION,
  UPCASTERS,
  WHOLE,
} from '#log/partition/record.ts'

type Fixture = {
  logId: string
  partition: number
  firstOffset: number
  count: number
  version: number
  crc: number
  payload: string
  events: MarketEvent[]
}

const fixture = (version: number): Fixture =>
  JSON.parse(readFileSync(new URL(`./fixtures/record-v${version}.json`, import.meta.url), 'utf8'))

function rowOf({ firstOffset, count, version, crc, payload }: Fixture): BatchRow {
  const bytes = Buffer.from(payload, 'utf8')
  return { first_offset: firstOffset, count, version, crc, payload: bytes }
}

for (let version = 1; version <= RECORD_VERSION; version++) {
  test(`records of log format version ${version} are decoded to the events that were written`, () => {
    const stored = fixture(version)
    const records = decodeBatch(stored, rowOf(stored), UPCASTERS, WHOLE)
    assert.deepEqual(
      records,
      stored.events.map((event, index) => ({ offset: stored.firstOffset + index, event })),
    )
  })
}

test('the encoder writes the current version of the log format exactly as in the stored example', () => {
  const stored = fixture(RECORD_VERSION)
  const rows: BatchRow[] = []
  new BatchEncoder().encode(
    { home: stored, firstOffset: stored.firstOffset },
    stored.events,
    WHOLE,
    (row) => {
      rows.push({ ...row, payload: Buffer.from(row.payload) })
    },
  )
  assert.deepEqual(rows, [rowOf(stored)])
})

test('a log record of another format version is converted when read, or refused if no conversion exists', () => {
  const home = { logId: 'old', partition: 3 }
  const payload = Buffer.from('[\n{"kind":"Noted","market":"0x1","seq":1}\n]')
  const row = { first_offset: 8, count: 1, version: 0, payload }
  const stored = { ...row, crc: batchCrc(home, row) }
  const upcasters = new Map([
    ...UPCASTERS,
    [
      0,
      (event: unknown) => {
        const { kind, market, seq } = event as { kind: string; market: string; seq: number }
        return { type: kind, marketId: market, seq }
      },
    ],
  ])
  assert.deepEqual(decodeBatch(home, stored, upcasters, WHOLE), [
    { offset: 8, event: { type: 'Noted', marketId: '0x1', seq: 1 } },
  ])
  const unknown = (error: unknown) => error instanceof Fault && error.code === 'LOG_VERSION_UNKNOWN'
  assert.throws(() => decodeBatch(home, stored, new Map(), WHOLE), unknown)
  const newer = { ...row, version: RECORD_VERSION + 1 }
  assert.throws(
    () => decodeBatch(home, { ...newer, crc: batchCrc(home, newer) }, UPCASTERS, WHOLE),
    unknown,
  )
})

test('a row with a correct checksum but unreadable content is reported as corrupt, with its offset', () => {
  const home = { logId: 'log', partition: 3 }
  const rowWith = (text: string, count = 1): BatchRow => {
    const row = { first_offset: 8, count, version: RECORD_VERSION, payload: Buffer.from(text) }
    return { ...row, crc: batchCrc(home, row) }
  }
  const refused = (error: unknown) =>
    error instanceof Fault && error.code === 'LOG_CORRUPT' && /at offset 8/.test(error.message)
  const event = '{"type":"Noted","marketId":"0x1","seq":1}'
  assert.equal(decodeBatch(home, rowWith(`[${event}]`), UPCASTERS, WHOLE).length, 1)
  for (const row of [rowWith('["\u0007"]'), rowWith('{}'), rowWith(`[${event}]`, 2)]) {
    assert.throws(() => decodeBatch(home, row, UPCASTERS, WHOLE), refused)
  }
  const picky = { ...WHOLE, read: () => assert.fail('no such kind') }
  assert.throws(() => decodeBatch(home, rowWith(`[${event}]`), UPCASTERS, picky), refused)
})

test('a large batch is split into rows of about 4 MiB', () => {
  const MIB = 1024 * 1024
  const events = Array.from({ length: 12 }, (_, index) => ({
    type: 'Noted',
    marketId: '0x1' as MarketId,
    seq: index + 1,
    note: 'x'.repeat(MIB),
  }))
  const sizes: [events: number, mib: number][] = []
  new BatchEncoder().encode(
    { home: { logId: 'log', partition: 0 }, firstOffset: 1 },
    events,
    WHOLE,
    (row) => {
      sizes.push([row.count, Math.floor(row.payload.length / MIB)])
    },
  )
  assert.deepEqual(sizes, [
    [4, 4],
    [4, 4],
    [4, 4],
  ])
})

test('after a batch fails to encode, the next batch contains none of its events', () => {
  const encoder = new BatchEncoder()
  const home = { logId: 'log', partition: 0 }
  const event = { type: 'Noted', marketId: '0x1' as MarketId, seq: 1 }
  const form = {
    ...WHOLE,
    write(each: typeof event, before: unknown, into: JsonBytes) {
      if (before !== undefined) assert.fail('the second cannot be written')
      into.json(each)
    },
  }
  assert.throws(() =>
    encoder.encode({ home, firstOffset: 1 }, [event, event], form, () => undefined),
  )
  encoder.encode({ home, firstOffset: 1 }, [event], form, ({ payload }) => {
    assert.equal(payload.toString(), `[\n${JSON.stringify(event)}\n]`)
  })
})

test('a row is refused if any of its columns has changed', () => {
  const stored = fixture(1)
  const row = rowOf(stored)
  const payload = Buffer.from(row.payload)
  payload[40] = payload[40]! ^ 4
  const changed: BatchRow[] = [
    { ...row, first_offset: row.first_offset + 1 },
    { ...row, count: row.count - 1 },
    { ...row, version: 0 },
    { ...row, crc: row.crc ^ 1 },
    { ...row, payload },
  ]
  const corrupt = (error: unknown) => error instanceof Fault && error.code === 'LOG_CORRUPT'
  for (const each of changed)
    assert.throws(() => decodeBatch(stored, each, UPCASTERS, WHOLE), corrupt)
  const elsewhere = { ...stored, partition: stored.partition + 1 }
  assert.throws(() => decodeBatch(elsewhere, row, UPCASTERS, WHOLE), corrupt)
})
