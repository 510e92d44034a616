import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import { openArchive, wholeLog } from '#log/archive/archive-reader.ts'
import type { EventLog } from '#log/event-log.ts'
import { openLogReader } from '#log/log-reader.ts'
import { openSqliteLog, type SqliteLogOptions } from '#log/partition/sqlite-log.ts'
import { eventually } from '../support/eventually.ts'
import { type Noted, notes } from './flow.ts'

const MARKET = `0x${'1a'.repeat(32)}` as MarketId
const note = notes(MARKET)
const NOW = 1_790_000_000_000

let dataDir: string
let opened: EventLog<Noted>[]

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'sibyl-archive-'))
  opened = []
})

afterEach(async () => {
  for (const log of opened) await log.close()
  rmSync(dataDir, { recursive: true, force: true })
})

const archiveDir = () => join(dataDir, 'archive')

function open(more: Partial<SqliteLogOptions['archive']> = {}): EventLog<Noted> {
  const log = openSqliteLog<Noted>({
    dataDir,
    partitions: 1,
    own: [0],
    checkpointThread: false,
    archive: { dir: archiveDir(), bytesMax: 0, segmentEventsMin: 10, segmentWaitMs: 0, ...more },
  })
  opened.push(log)
  return log
}

async function close(log: EventLog<Noted>): Promise<void> {
  opened = opened.filter((each) => each !== log)
  await log.close()
}

/** Appends batches of five notes, up to and including an offset. */
async function appendTo(log: EventLog<Noted>, last: number): Promise<void> {
  for (let from = log.lastOffset(0) + 1; from <= last; from += 5) {
    const events = [0, 1, 2, 3, 4].map((more) => note(from + more))
    await log.append(0, { events, nowMs: NOW + from })
  }
}

/** Takes a snapshot at the end of the log. From then on, only the archive can prevent truncation of the log. */
async function snapshot(log: EventLog<Noted>): Promise<void> {
  const last = log.lastOffset(0)
  const writer = log.beginSnapshot(0, MARKET, last, last)
  writer.writeChunk(Buffer.from('all'))
  await writer.commit()
}

async function cutTo(log: EventLog<Noted>, below: number): Promise<void> {
  await eventually(() => {
    log.truncate(0, below, log.lastOffset(0), 1_000_000)
    assert.equal(log.state(0).firstOffset, below)
  })
}

function segments(log: EventLog<Noted>): string[] {
  const folder = join(archiveDir(), log.id, 'partition-0')
  return readdirSync(folder).sort((a, b) => Number.parseInt(a, 10) - Number.parseInt(b, 10))
}

function fault(code: string, pattern: RegExp) {
  return (error: unknown) => {
    assert(error instanceof Fault, `${error}`)
    assert.equal(error.code, code)
    assert.match(error.message, pattern)
    return true
  }
}

test('the log archives events before it deletes them, so log and archive together contain every event', async () => {
  let log = open()
  await appendTo(log, 200)
  await snapshot(log)
  const { firstOffset } = log.truncate(0, 101, 200, 1_000)
  assert.equal(firstOffset, 1, 'nothing leaves before it is archived')
  await cutTo(log, 101)
  await close(log)
  log = open()
  await appendTo(log, 300)
  await snapshot(log)
  await cutTo(log, 251)
  assert.deepEqual(segments(log), ['1-100.events', '101-250.events'])

  const reader = openLogReader<Noted>(dataDir)
  const whole = wholeLog(reader, openArchive<Noted>(archiveDir(), reader))
  assert.equal(whole.firstOffset(0), 1)
  const read: number[] = []
  while (read.length < 300) {
    for (const { offset, event } of whole.read(0, read.length + 1, 37)) {
      assert.deepEqual(event, note(offset))
      read.push(offset)
    }
  }
  assert.deepEqual(
    read,
    Array.from({ length: 300 }, (_, index) => index + 1),
  )
  await reader.close()
})

test('if the archive cannot be written, the log deletes no events', async () => {
  const log = open({ segmentEventsMin: 50, segmentWaitMs: 3_600_000 })
  await appendTo(log, 60)
  await snapshot(log)
  for (let turn = 0; turn < 3; turn++) log.truncate(0, 41, 60, 1_000)
  assert.deepEqual(segments(log), [])
  const folder = join(archiveDir(), log.id, 'partition-0')
  rmSync(folder, { recursive: true })
  writeFileSync(folder, 'no folder')
  const failed = await eventually(() => {
    try {
      log.truncate(0, 56, 60, 1_000)
    } catch (error) {
      return error
    }
    throw new Error('it is not known yet that it cannot be written')
  })
  fault('LOG_ARCHIVE_FAILED', /partition-0/)(failed)
  assert.equal(log.state(0).firstOffset, 1)
  rmSync(folder)
  await cutTo(log, 56)
  assert.deepEqual(segments(log), ['1-55.events'])
})

test('above its size limit, the archive drops the oldest segments, and never the newest', async () => {
  const log = open({ bytesMax: 1 })
  for (const last of [50, 100, 150]) {
    await appendTo(log, last)
    await snapshot(log)
    await cutTo(log, last - 4)
  }
  assert.deepEqual(segments(log), ['96-145.events'])
  assert(statSync(join(archiveDir(), log.id, 'partition-0', '96-145.events')).size > 1)
})

test('a log that ends before its archive’s last event has lost events and does not open', async () => {
  let log = open()
  await appendTo(log, 30)
  await close(log)
  cpSync(join(dataDir, 'log'), join(dataDir, 'early'), { recursive: true })
  log = open()
  await appendTo(log, 100)
  await snapshot(log)
  await cutTo(log, 51)
  await close(log)
  rmSync(join(dataDir, 'log'), { recursive: true })
  cpSync(join(dataDir, 'early'), join(dataDir, 'log'), { recursive: true })
  assert.throws(
    () => open(),
    fault('LOG_LOST', /ends at offset 30, but the archive contains offset 50/),
  )
})

test('if archived events are damaged or missing, the log reports this and deletes no further events', async () => {
  let log = open()
  await appendTo(log, 100)
  await snapshot(log)
  await cutTo(log, 51)
  const { id } = log
  await close(log)
  const folder = join(archiveDir(), id, 'partition-0')
  writeFileSync(join(folder, '51-900.events'), 'damaged')
  log = open()
  const cutting = () => log.truncate(0, 96, 100, 1_000)
  assert.throws(cutting, fault('LOG_ARCHIVE_FAILED', /offsets 51 to 900 are damaged/))
  rmSync(folder, { recursive: true })
  assert.throws(
    cutting,
    fault('LOG_ARCHIVE_FAILED', /offsets 1 to 50 have left the log and are not in the archive/),
  )
  await cutTo(log, 96)
  assert.deepEqual(segments(log), ['51-95.events'])
})
