/**
 * A writer is killed. Then its files are cut at every byte of the last batch, and bits are flipped anywhere. Each time
 * the log opens with exactly the complete batches up to some point, or is refused. If the mark (a small file with the
 * last durable offset) shows that a batch was durable, the log never opens without it.
 */

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { Fault } from '#domain/fault.ts'
import type { EventLog } from '#log/event-log.ts'
import { partitionPaths } from '#log/log-folder.ts'
import { createMark } from '#log/partition/durable-mark.ts'
import { openSqliteLog } from '#log/partition/sqlite-log.ts'
import { randomFrom } from '../support/random.ts'
import { sampleOf, sweep, WHOLE } from '../support/sample.ts'
import { contentOf, flowOf, type Noted } from './flow.ts'

const SEED = Number(process.env.TEST_SEED ?? 20_260_801)
const BATCHES = 5

/** Uses a folder in memory if there is one, because thousands of opens would each wait for the disk. */
const memory = '/dev/shm'
const folder = mkdtempSync(join(existsSync(memory) ? memory : tmpdir(), 'sibyl-log-damage-'))
after(() => rmSync(folder, { recursive: true, force: true }))

type Files = { database: Buffer; wal: Buffer; mark: Buffer }

const flow = flowOf(SEED, BATCHES)
const dataDir = join(folder, 'killed')
const paths = partitionPaths(dataDir, 0)
const expected = await contentAfterEachBatch()
const written = writeAndKill()
const killed: Files = {
  database: readFileSync(paths.database),
  wal: readFileSync(paths.wal),
  mark: readFileSync(paths.mark),
}
const earlierMark = markOf(written[BATCHES - 2]!.lastOffset)
const noMark = markOf(0)
/** Offsets in the write-ahead file at which the frames of each batch end. */
const ends = written.map((batch) => batch.walBytes)
const lastBegin = ends[BATCHES - 2]!
const lastEnd = ends[BATCHES - 1]!

function open(dir: string): EventLog<Noted> {
  return openSqliteLog<Noted>({
    dataDir: dir,
    partitions: 1,
    own: [0],
    pageBytes: 512,
    checkpointThread: false,
  })
}

/** Returns the log's content before the first batch and after each batch. */
async function contentAfterEachBatch(): Promise<string[]> {
  const log = open(join(folder, 'reference'))
  const contents = [contentOf(log, 0, flow)]
  for (const batch of flow.batches) {
    await log.append(0, batch)
    contents.push(contentOf(log, 0, flow))
  }
  await log.close()
  return contents
}

function writeAndKill(): { lastOffset: number; walBytes: number }[] {
  const writer = fileURLToPath(new URL('./killed-writer.ts', import.meta.url))
  const child = spawnSync(
    process.execPath,
    [...process.execArgv, writer, dataDir, `${SEED}`, `${BATCHES}`],
    {
      encoding: 'utf8',
    },
  )
  assert.equal(child.signal, 'SIGKILL', child.stderr)
  return child.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
}

function markOf(offset: number): Buffer {
  const path = join(folder, `mark-${offset}`)
  rmSync(path, { force: true })
  createMark(path, offset)
  return readFileSync(path)
}

/** Returns the number of batches in the log of these files, or the error code if it is refused. */
async function opened(files: Partial<Files>, contents = expected): Promise<number | string> {
  rmSync(`${paths.database}-shm`, { force: true })
  writeFileSync(paths.database, files.database ?? killed.database)
  writeFileSync(paths.wal, files.wal ?? killed.wal)
  writeFileSync(paths.mark, files.mark ?? killed.mark)
  return verdict(contents)
}

async function verdict(contents: readonly string[]): Promise<number | string> {
  let log: EventLog<Noted> | undefined
  try {
    log = open(dataDir)
    const content = contentOf(log, 0, flow)
    const batches = contents.indexOf(content)
    assert.notEqual(batches, -1, `seed ${SEED}: neither a whole prefix nor refused: ${content}`)
    return batches
  } catch (error) {
    if (error instanceof Fault) return error.code
    throw error
  } finally {
    await log?.close()
  }
}

function flipped(bytes: Buffer, at: number, bit: number): Buffer {
  const copy = Buffer.from(bytes)
  copy[at] = copy[at]! ^ (1 << bit)
  return copy
}

function tally(counts: Map<number | string, number>, found: number | string): void {
  counts.set(found, (counts.get(found) ?? 0) + 1)
}

/** One in this many places is damaged. */
const PART = 4

test('a log whose writer was killed has every acknowledged event', async () => {
  assert.equal(await opened({}), BATCHES)
})

test('if the last batch was not yet durable and is cut off, the log opens without this batch', async () => {
  const { from, step } = sweep(lastBegin, 1, PART)
  for (let length = from; length < lastEnd; length += step) {
    const left = await opened({ wal: killed.wal.subarray(0, length), mark: earlierMark })
    assert.equal(left, BATCHES - 1, `cut at ${length}`)
  }
  assert.equal(await opened({ mark: earlierMark }), BATCHES)
})

test('if the last batch was durable and is cut off, the log refuses to open', async () => {
  const { from, step } = sweep(lastBegin, 13, PART)
  for (let length = from; length < lastEnd; length += step) {
    assert.equal(await opened({ wal: killed.wal.subarray(0, length) }), 'LOG_LOST', `at ${length}`)
  }
})

test('a truncated write-ahead file yields only whole batches; if durable batches are missing, the log refuses to open', async () => {
  const { from, step } = sweep(0, 61, PART)
  for (let length = from; length < lastBegin; length += step) {
    const wal = killed.wal.subarray(0, length)
    const whole = ends.filter((end) => end <= length).length
    assert.equal(await opened({ wal, mark: noMark }), whole, `cut at ${length}`)
    assert.equal(await opened({ wal }), 'LOG_LOST', `cut at ${length}`)
  }
})

test('after a flipped bit in the write-ahead file, the log has all durable events or refuses to open', async (t) => {
  const random = randomFrom(SEED)
  const counts = new Map<number | string, number>()
  for (let at = 0; at < killed.wal.length; at += random.int(1, WHOLE ? 47 : 47 * PART)) {
    const bit = random.int(0, 7)
    const wal = flipped(killed.wal, at, bit)
    const marked = await opened({ wal })
    assert(marked === BATCHES || typeof marked === 'string', `bit ${bit} of ${at}: ${marked}`)
    tally(counts, marked)
    const unmarked = await opened({ wal, mark: noMark })
    if (at < ends[BATCHES - 3]! && at >= 32) {
      // Two later commits follow the flipped bit. So the log reports damage even without a mark, and does not treat the
      // bit as part of an incomplete last batch.
      assert.equal(unmarked, 'LOG_CORRUPT', `bit ${bit} of ${at}`)
    }
    tally(counts, unmarked)
  }
  t.diagnostic(`seed ${SEED}: ${JSON.stringify([...counts])}`)
})

test('after a flipped bit in the database file, the log has the same content or reports corruption', async (t) => {
  assert.equal(await opened({}), BATCHES)
  const log = open(dataDir)
  const content = contentOf(log, 0, flow)
  await log.close()
  const files: Files = {
    database: readFileSync(paths.database),
    wal: Buffer.alloc(0),
    mark: readFileSync(paths.mark),
  }
  const random = randomFrom(SEED + 1)
  const counts = new Map<number | string, number>()
  for (let at = 0; at < files.database.length; at += random.int(1, WHOLE ? 31 : 31 * PART)) {
    const bit = random.int(0, 7)
    const database = flipped(files.database, at, bit)
    tally(counts, await opened({ ...files, database }, [content]))
  }
  assert((counts.get('LOG_CORRUPT') ?? 0) > sampleOf(100, PART))
  t.diagnostic(`seed ${SEED}: ${JSON.stringify([...counts])}`)
})

test('a bit flipped in any byte of the hash of a closed order is found when the log is opened', async () => {
  assert.equal(await opened({}), BATCHES)
  const database = readFileSync(paths.database)
  const files = { database, wal: Buffer.alloc(0), mark: readFileSync(paths.mark) }
  let places = 0
  for (const hash of flow.hashes) {
    const bytes = Buffer.from(hash.slice(2), 'hex')
    // A hash that spans two pages cannot be found in the file, so it is skipped. A page split can leave an old copy of
    // a hash, so the test damages every copy.
    if (!database.includes(bytes)) continue
    places++
    const { from, step } = sweep(0, 3, PART)
    for (let byte = from; byte < 32; byte += step) {
      const damaged = Buffer.from(database)
      for (let at = database.indexOf(bytes); at >= 0; at = database.indexOf(bytes, at + 1)) {
        flipped(bytes, byte, 5).copy(damaged, at)
      }
      assert.equal(await opened({ ...files, database: damaged }), 'LOG_CORRUPT')
    }
  }
  assert(places > 3)
})

test('a log refuses to open if a row was deleted from any of its tables', async () => {
  for (const table of ['closed_orders', 'trade_status', 'markets', 'batches']) {
    assert.equal(await opened({}), BATCHES)
    const log = open(dataDir)
    await log.close()
    const db = new Database(paths.database)
    const { changes } = db
      .prepare(`DELETE FROM ${table} WHERE crc = (SELECT max(crc) FROM ${table})`)
      .run()
    db.close()
    assert.equal(changes, 1)
    assert.equal(await verdict([]), 'LOG_CORRUPT', table)
  }
})

test('a log whose write-ahead file was deleted is refused', async () => {
  assert.equal(await opened({ wal: Buffer.alloc(0) }), 'LOG_LOST')
})

test('a log whose durable-position file is damaged is refused, unless the operator accepts the loss', async () => {
  assert.equal(await opened({ mark: flipped(killed.mark, 7, 0) }), 'LOG_CORRUPT')
  const log = openSqliteLog<Noted>({ dataDir, partitions: 1, own: [0], acceptLoss: true })
  assert.equal(contentOf(log, 0, flow), expected[BATCHES])
  await log.close()
})

test('after an operator accepts the loss, a damaged log opens with its intact batches, also later', async () => {
  assert.equal(await opened({ wal: killed.wal.subarray(0, lastBegin + 100) }), 'LOG_LOST')
  const log = openSqliteLog<Noted>({ dataDir, partitions: 1, own: [0], acceptLoss: true })
  assert.equal(contentOf(log, 0, flow), expected[BATCHES - 1])
  await log.close()
  const again = open(dataDir)
  assert.equal(contentOf(again, 0, flow), expected[BATCHES - 1])
  await again.close()
})

function withoutBlock(at: number): Buffer {
  const wal = Buffer.from(killed.wal)
  wal.fill(0, at, Math.min(at + 512, wal.length))
  return wal
}

test('a missing block is tolerated in the unfinished last batch, and reported as damage in earlier batches', async () => {
  for (let at = 512; at + 512 <= ends[BATCHES - 3]!; at += 512) {
    assert.equal(await opened({ wal: withoutBlock(at), mark: noMark }), 'LOG_CORRUPT', `${at}`)
  }
  for (let at = ends[BATCHES - 3]!; at + 512 <= lastBegin; at += 512) {
    // If the missing block contained the batch's commit, the file may look incomplete instead of damaged. Then the mark
    // shows the loss.
    const verdict = await opened({ wal: withoutBlock(at), mark: earlierMark })
    assert(verdict === 'LOG_CORRUPT' || verdict === 'LOG_LOST', `${at}: ${verdict}`)
  }
  for (let at = lastBegin; at < lastEnd; at += 512) {
    assert.equal(await opened({ wal: withoutBlock(at), mark: earlierMark }), BATCHES - 1, `${at}`)
    assert.equal(await opened({ wal: withoutBlock(at) }), 'LOG_LOST', `${at}`)
  }
})
