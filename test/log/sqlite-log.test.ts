/** Tests the log in local files as its owner and its readers use it, with real threads and processes. */

import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import Database from 'better-sqlite3'
import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import { tradeId } from '#domain/ids.ts'
import type { EventLog } from '#log/event-log.ts'
import { createLog, partitionPaths } from '#log/log-folder.ts'
import { openLogReader } from '#log/log-reader.ts'
import { makeCheckpointer } from '#log/partition/checkpointer.ts'
import { openPartitionFile } from '#log/partition/partition-file.ts'
import { UPCASTERS, WHOLE } from '#log/partition/record.ts'
import { openSqliteLog, type SqliteLogOptions } from '#log/partition/sqlite-log.ts'
import { eventually } from '../support/eventually.ts'
import { randomFrom } from '../support/random.ts'
import { conformance, fault, range } from './conformance.ts'
import { closedOrder, contentOf, flowOf, marketNamed, type Noted, notes } from './flow.ts'

const NOW = 1_790_000_000_000
const random = randomFrom(7)
const market = marketNamed(random)
const other = marketNamed(random)
const note = notes(market)

let dataDir: string
let opened: EventLog<Noted>[]

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'sibyl-log-'))
  opened = []
})
afterEach(async () => {
  for (const log of opened) await log.close()
  rmSync(dataDir, { recursive: true, force: true })
})

function open(options: Partial<SqliteLogOptions> = {}): EventLog<Noted> {
  const log = openSqliteLog<Noted>({
    dataDir,
    partitions: 2,
    own: [0],
    checkpointThread: false,
    ...options,
  })
  opened.push(log)
  return log
}

async function reopened(log: EventLog<Noted>): Promise<EventLog<Noted>> {
  await close(log)
  return open()
}

async function close(log: EventLog<Noted>): Promise<void> {
  opened = opened.filter((each) => each !== log)
  await log.close()
}

async function appendNotes(log: EventLog<Noted>, from: number, to: number) {
  return log.append(0, { events: range(from, to).map(note), nowMs: NOW + to })
}

conformance(async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sibyl-log-'))
  return {
    open: async (options) =>
      openSqliteLog<Noted>({
        ...{ dataDir: folder, partitions: 2, own: [0], checkpointThread: false, ...options },
      }),
    dispose: async () => rmSync(folder, { recursive: true, force: true }),
  }
})

test('the log verifies its stored trade states step by step and detects a missing one', async () => {
  let log = open()
  const trade = (seq: number, status: 'submitted' | 'confirmed') =>
    ({ tradeId: tradeId(market, seq, 0), status, txHash: '0x1', atMs: NOW }) as const
  const many = range(1, 10_200).map((seq) => trade(seq, 'submitted'))
  await log.append(0, { events: [note(1)], nowMs: NOW, trades: many })
  log = await reopened(log)
  for (let step = 0; step < 30; step++) {
    log.sweep(0, 500)
    // Each step updates a trade that `sweep` has already checked, and a trade that it has not. Each step also adds a
    // third trade.
    const trades = [trade(step + 1, 'confirmed'), trade(10_200 - step, 'confirmed')]
    const events = [note(2 + step)]
    await log.append(0, {
      events,
      nowMs: NOW,
      trades: [...trades, trade(20_000 + step, 'submitted')],
    })
  }
  await log.close()
  const db = new Database(partitionPaths(dataDir, 0).database)
  db.exec('DELETE FROM trade_status WHERE seq = 7000')
  db.close()
  log = open()
  assert.throws(() => {
    for (let step = 0; step < 30; step++) log.sweep(0, 500)
  }, fault('LOG_CORRUPT'))
})

test('a market snapshot becomes readable when it is complete and durable, and then replaces the previous one', async () => {
  let log = open()
  await appendNotes(log, 1, 10)
  const chunks = (value: number, count: number) =>
    range(1, count).map((at) => Buffer.alloc(5_000, value + at))
  const take = (value: number, count: number, atOffset: number) => {
    const writer = log.beginSnapshot(0, market, atOffset, atOffset)
    for (const chunk of chunks(value, count)) writer.writeChunk(chunk)
    return writer
  }
  const stored = () => {
    const snapshot = log.readSnapshot(0, market)
    return snapshot && { meta: snapshot.meta, chunks: [...snapshot.chunks] }
  }
  const { snapshots } = partitionPaths(dataDir, 0)
  const files = () => readdirSync(snapshots).sort()
  const kept = new Map<string, Buffer>()
  const first = take(0, 3, 4)
  assert.equal(stored(), undefined)
  const committed = first.commit()
  assert.equal(stored(), undefined, 'it is not durable yet')
  await committed
  const meta = { marketId: market, atOffset: 4, seq: 4, chunks: 3 }
  assert.deepEqual(stored(), { meta, chunks: chunks(0, 3) })
  for (const atOffset of [1, 2, 3]) {
    // Takes each snapshot in a separate copy of the log, which contains no other snapshot.
    const other = join(dataDir, `other-${atOffset}`)
    cpSync(join(dataDir, 'log'), join(other, 'log'), { recursive: true })
    rmSync(partitionPaths(other, 0).snapshots, { recursive: true })
    const copy = open({ dataDir: other })
    await copy.beginSnapshot(0, market, atOffset, atOffset).commit()
    const name = `${market}-${atOffset}`
    kept.set(join(snapshots, name), readFileSync(join(partitionPaths(other, 0).snapshots, name)))
  }
  kept.set(join(snapshots, `${market}-4`), readFileSync(join(snapshots, `${market}-4`)))
  take(50, 4, 6)
  log = await reopened(log)
  assert.deepEqual(stored(), { meta, chunks: chunks(0, 3) }, 'the unfinished one is not seen')
  assert.deepEqual(files(), [`${market}-4`])
  take(60, 2, 7).abort()
  await take(100, 2, 10).commit()
  // A snapshot that began earlier and is completed later does not replace the newer one.
  const late = take(70, 1, 8)
  const newer = take(80, 1, 10)
  await newer.commit()
  await late.commit()
  assert.equal(log.snapshots(0)[0]?.atOffset, 10)
  await take(100, 2, 10).commit()
  await close(log)
  assert.deepEqual(files(), [`${market}-10`, `${market}-8`])
  // Replaced snapshots that were not deleted are ignored.
  for (const [path, bytes] of kept) writeFileSync(path, bytes)
  log = open()
  assert.deepEqual(files(), [`${market}-10`])
  assert.deepEqual(log.snapshots(0), [{ ...meta, atOffset: 10, seq: 10, chunks: 2 }])
  assert.deepEqual(stored()?.chunks, chunks(100, 2))
})

test('if writing a snapshot fails, nothing of it is stored and the log still accepts events', async () => {
  const log = open()
  await appendNotes(log, 1, 10)
  const { snapshots } = partitionPaths(dataDir, 0)
  rmSync(snapshots, { recursive: true })
  writeFileSync(snapshots, '')
  const refused = log.beginSnapshot(0, market, 10, 10)
  refused.writeChunk(Buffer.alloc(10))
  await assert.rejects(refused.commit(), fault('LOG_SNAPSHOT_FAILED'))
  assert.throws(() => refused.isReady(), fault('LOG_SNAPSHOT_FAILED'))
  assert.throws(() => refused.writeChunk(Buffer.alloc(10)), fault('LOG_SNAPSHOT_FAILED'))
  rmSync(snapshots)
  mkdirSync(snapshots)
  assert.deepEqual(log.snapshots(0), [])
  await appendNotes(log, 11, 12)
  await log.beginSnapshot(0, market, 12, 12).commit()
  assert.equal(log.readSnapshot(0, market)?.meta.atOffset, 12)
})

test('when a partition is reopened, its unfinished snapshots fail and leave no file', async () => {
  const log = open()
  await appendNotes(log, 1, 10)
  const begun = log.beginSnapshot(0, market, 10, 10)
  begun.writeChunk(Buffer.alloc(10))
  const committed = log.beginSnapshot(0, market, 9, 9).commit()
  log.reopen(0)
  assert.throws(() => begun.writeChunk(Buffer.alloc(10)), fault('LOG_SNAPSHOT_FAILED'))
  await assert.rejects(committed, fault('LOG_SNAPSHOT_FAILED'))
  assert.deepEqual(log.snapshots(0), [])
  await close(log)
  assert.deepEqual(readdirSync(partitionPaths(dataDir, 0).snapshots), [])
})

test('a large snapshot is stored completely, and its writer waits for the disk', async () => {
  let log = open()
  await appendNotes(log, 1, 10)
  const writer = log.beginSnapshot(0, market, 10, 10)
  let waits = 0
  for (let chunk = 0; chunk < 200; chunk++) {
    for (; !writer.isReady(); waits++) await new Promise((resolve) => setImmediate(resolve))
    writer.writeChunk(Buffer.alloc(65_536, chunk))
  }
  assert(waits >= 11, `it waited ${waits} times`)
  await writer.commit()
  log = await reopened(log)
  let chunk = 0
  for (const bytes of log.readSnapshot(0, market)?.chunks ?? []) {
    assert.deepEqual(bytes, Buffer.alloc(65_536, chunk++))
  }
  assert.equal(chunk, 200)
  // A later snapshot reuses the buffers, and must not contain the old bytes.
  const next = log.beginSnapshot(0, market, 10, 10)
  for (chunk = 0; chunk < 40; chunk++) next.writeChunk(Buffer.alloc(65_000, chunk))
  await next.commit()
  const read = Array.from(log.readSnapshot(0, market)!.chunks, (bytes) => bytes[64_999])
  assert.deepEqual(read, range(0, 39))
})

test('a missing or damaged snapshot prevents opening the log only if the events it replaces were deleted', async () => {
  let log = open()
  for (let from = 1; from <= 40; from += 4) await appendNotes(log, from, from + 3)
  const writer = log.beginSnapshot(0, market, 30, 30)
  const chunks = ['first', 'second', 'third'].map((text) => Buffer.from(text))
  for (const chunk of chunks) writer.writeChunk(chunk)
  await writer.commit()
  const { snapshots } = partitionPaths(dataDir, 0)
  const path = join(snapshots, `${market}-30`)
  const bytes = readFileSync(path)
  await close(log)
  rmSync(snapshots, { recursive: true })
  log = open()
  assert.deepEqual(log.truncationFloor(0), { offset: 1, marketId: market })
  await close(log)
  writeFileSync(path, bytes)
  log = open()
  assert.equal(log.truncate(0, 31, 40, 1_000).removed, 28)
  await close(log)
  for (const at of range(0, bytes.length - 1)) {
    const damaged = Buffer.from(bytes)
    damaged[at] = damaged[at]! ^ 4
    writeFileSync(path, damaged)
    const openAndRead = () => {
      log = open()
      for (const _ of log.readSnapshot(0, market)!.chunks);
    }
    assert.throws(openAndRead, fault('LOG_CORRUPT'), `byte ${at}`)
    await close(log)
  }
  rmSync(path)
  assert.throws(() => open(), fault('LOG_CORRUPT'))
  // A snapshot whose file name has another offset than its content is refused.
  writeFileSync(join(snapshots, `${market}-31`), bytes)
  assert.throws(() => open(), fault('LOG_CORRUPT'))
  rmSync(join(snapshots, `${market}-31`))
  // Files that were set aside by hand are left alone.
  writeFileSync(`${path}.aside`, bytes)
  writeFileSync(path, bytes)
  log = open()
  assert.deepEqual(log.truncationFloor(0), { offset: 31, marketId: market })
  assert.deepEqual([...log.readSnapshot(0, market)!.chunks], chunks)
  assert(existsSync(`${path}.aside`))
})

test('a log that ends before its newest snapshot has lost events and does not open', async () => {
  const log = open()
  await appendNotes(log, 1, 4)
  await close(log)
  const { database, mark, snapshots } = partitionPaths(dataDir, 0)
  const copies = [database, mark].map((path) => [path, readFileSync(path)] as const)
  const later = open()
  await appendNotes(later, 5, 9)
  await later.beginSnapshot(0, market, 9, 9).commit()
  await close(later)
  for (const [path, bytes] of copies) writeFileSync(path, bytes)
  assert.throws(() => open(), fault('LOG_LOST'))
  assert.deepEqual(readdirSync(snapshots), [`${market}-9`], 'what is refused stays')
  // After the operator accepts the loss, the snapshot must never be used again.
  const accepted = open({ acceptLoss: true })
  assert.deepEqual(accepted.snapshots(0), [])
  assert.deepEqual(readdirSync(snapshots), [])
  await appendNotes(accepted, 5, 12)
  await close(accepted)
  assert.deepEqual(open().snapshots(0), [])
})

test('if a log cannot be opened even with consent to the loss, it keeps all its snapshots', async () => {
  let log = open()
  for (let from = 1; from <= 40; from += 4) await appendNotes(log, from, from + 3)
  await log.beginSnapshot(0, market, 36, 36).commit()
  log.truncate(0, 37, 40, 1_000)
  await close(log)
  const { database, mark, snapshots } = partitionPaths(dataDir, 0)
  const before = [database, mark].map((path) => [path, readFileSync(path)] as const)
  log = open()
  await appendNotes(log, 41, 44)
  await log.beginSnapshot(0, market, 44, 44).commit()
  await close(log)
  const after = [database, mark].map((path) => [path, readFileSync(path)] as const)
  for (const [path, bytes] of before) writeFileSync(path, bytes)
  assert.throws(() => open(), fault('LOG_LOST'))
  assert.throws(() => open({ acceptLoss: true }), fault('LOG_CORRUPT'))
  assert.deepEqual(readdirSync(snapshots), [`${market}-44`])
  for (const [path, bytes] of after) writeFileSync(path, bytes)
  log = open()
  assert.equal(log.snapshots(0)[0]?.atOffset, 44)
})

test('a damaged snapshot that the log does not need does not prevent opening', async () => {
  const log = open()
  await appendNotes(log, 1, 12)
  await log.beginSnapshot(0, market, 12, 12).commit()
  await close(log)
  const { snapshots } = partitionPaths(dataDir, 0)
  writeFileSync(join(snapshots, `${market}-9`), 'damaged')
  writeFileSync(join(snapshots, `${other}-9`), '')
  // Folders with the names of snapshot files cannot be removed like files, so they stay.
  mkdirSync(join(snapshots, `${market}-8`))
  mkdirSync(join(snapshots, `${market}-8.1.new`))
  assert.equal(open().snapshots(0)[0]?.atOffset, 12)
  assert.deepEqual(readdirSync(snapshots), [`${market}-12`, `${market}-8`, `${market}-8.1.new`])
})

test('retiring a market removes everything of the market from the log', async () => {
  let log = open()
  const trades = range(1, 9).map((seq) => {
    return {
      tradeId: tradeId(market, seq, 0),
      status: 'confirmed',
      txHash: '0x',
      atMs: NOW,
    } as const
  })
  await log.append(0, { events: range(1, 9).map(note), nowMs: NOW, trades })
  const writer = log.beginSnapshot(0, market, 9, 9)
  writer.writeChunk(Buffer.alloc(10))
  await writer.commit()
  const { snapshots } = partitionPaths(dataDir, 0)
  const path = join(snapshots, `${market}-9`)
  const bytes = readFileSync(path)
  const begun = log.beginSnapshot(0, market, 9, 9)
  log.retireMarket(0, market)
  await assert.rejects(begun.commit(), fault('LOG_SNAPSHOT_FAILED'))
  assert.equal(log.sweep(0, 4), 4)
  await close(log)
  assert.deepEqual(readdirSync(snapshots), [])
  // A leftover snapshot of a retired market is deleted, and does not count as a snapshot of an unknown
  // market.
  writeFileSync(path, bytes)
  log = open()
  assert.deepEqual(log.snapshots(0), [])
  assert.deepEqual(readdirSync(snapshots), [])
  assert.equal(log.sweep(0, 100), 5)
  assert.equal(log.sweep(0, 100), 0)
  assert.deepEqual(log.tradeStatuses(0, [trades[8]!.tradeId]), [undefined])
  // The leftover snapshot is also not used for a later market with the same id.
  await appendNotes(log, 1, 1)
  await close(log)
  writeFileSync(path, bytes)
  assert.deepEqual(open().snapshots(0), [])
})

test('after a failed append, the reopened log has exactly the content from before the append', async () => {
  const flow = flowOf(11, 3)
  const log = open({ partitionBytesMax: 400_000 })
  await log.append(0, flow.batches[0]!)
  const before = contentOf(log, 0, flow)
  const huge = { ...flow.batches[1]!, events: [{ ...note(1), note: 'x'.repeat(500_000) }] }
  await assert.rejects(log.append(0, huge), (error: unknown) => {
    assert(error instanceof Fault && error.code === 'LOG_APPEND_FAILED' && error.retryable)
    assert.match(error.message, /full/)
    return true
  })
  await assert.rejects(log.append(0, flow.batches[1]!), fault('LOG_APPEND_FAILED'))
  assert.throws(() => log.read(0, 1, 1), fault('LOG_NEEDS_REOPEN'))
  assert.equal(log.reopen(0).lastOffset, flow.batches[0]!.events.length)
  assert.equal(contentOf(log, 0, flow), before)
  await log.append(0, flow.batches[1]!)
  const after = contentOf(log, 0, flow)
  assert.equal(contentOf(await reopened(log), 0, flow), after)
})

test('a data folder cannot be opened if a partition is missing or exchanged, or its number of partitions differs', async () => {
  const log = open({ own: [0, 1] })
  await log.append(1, { events: [note(1)], nowMs: NOW })
  await close(log)
  assert.throws(() => open({ partitions: 3 }), fault('LOG_PARTITIONS_DIFFER'))
  const { database } = partitionPaths(dataDir, 1)
  renameSync(database, `${database}.away`)
  assert.throws(() => open(), fault('LOG_PARTITION_MISSING'))
  assert.throws(() => openLogReader(dataDir), fault('LOG_PARTITION_MISSING'))
  renameSync(`${database}.away`, database)
  // The file of another partition is refused.
  const own = partitionPaths(dataDir, 0).database
  const mine = readFileSync(own)
  writeFileSync(own, readFileSync(database))
  assert.throws(() => open(), fault('LOG_CORRUPT'))
  writeFileSync(own, mine)
  const json = join(dataDir, 'log', 'log.json')
  const identity = readFileSync(json, 'utf8')
  writeFileSync(json, identity.replace('"format":2', '"format":1'))
  assert.throws(() => open(), fault('LOG_FORMAT_UNKNOWN'))
  rmSync(json)
  assert.throws(() => open(), fault('LOG_FOLDER_DAMAGED'))
  writeFileSync(json, identity)
  assert.equal(open({ own: [0, 1] }).lastOffset(1), 1)
})

test('the log’s database uses write-ahead mode and syncs every commit to the disk', () => {
  const { id: logId } = createLog(dataDir, 2)
  const paths = partitionPaths(dataDir, 0)
  const home = { logId, partition: 0 }
  const { db } = openPartitionFile({
    home,
    paths,
    upcasters: UPCASTERS,
    form: WHOLE,
    runs: { filterBytesMax: 0, runOrdersMax: 0 },
    acceptLoss: false,
  })
  try {
    const FULL = 2
    assert.equal(db.pragma('synchronous', { simple: true }), FULL)
    assert.equal(db.pragma('journal_mode', { simple: true }), 'wal')
  } finally {
    db.close()
  }
})

test('creating a log in a folder that already has one returns the existing log', () => {
  const first = createLog(dataDir, 2)
  assert.deepEqual(createLog(dataDir, 2), first)
})

test('a partition of the log can have only one writer, in one process or several', async () => {
  const log = open()
  assert.throws(() => open(), fault('LOG_LOCKED'))
  const second = open({ own: [1] })
  await second.append(1, { events: [note(1)], nowMs: NOW })
  const rival = fileURLToPath(new URL('./rival-writer.ts', import.meta.url))
  const child = spawn(process.execPath, [...process.execArgv, rival, dataDir, '2', '0'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const [answer] = await once(child.stdout.setEncoding('utf8'), 'data')
  assert.equal(answer.trim(), 'LOG_LOCKED')
  await once(child, 'exit')
  await appendNotes(log, 1, 2)
})

test('one step removes a limited number of expired closed orders, and reports whether more remain', async () => {
  const log = open()
  const random = randomFrom(43)
  const orders = Array.from({ length: 6_000 }, () => closedOrder(random, market, 1_000))
  await log.append(0, { events: [note(1)], nowMs: NOW, closed: orders })
  const steps: number[] = []
  for (let more = true; more; ) {
    const step = log.forgetClosed(0, 5_000, 1_000)
    steps.push(step.forgotten)
    more = step.more
  }
  assert.equal(
    steps.reduce((sum, step) => sum + step, 0),
    6_000,
  )
  assert(steps.length >= 3 && Math.max(...steps) < 2_500, `${steps}`)
  assert.equal(log.closedOrderRoom(0), 8_000_000)
})

test('if the operating system refuses a write, the log later contains exactly the acknowledged events', () => {
  createLog(dataDir, 1)
  const writer = fileURLToPath(new URL('./full-writer.ts', import.meta.url))
  const command = 'ulimit -S -f 300 && exec "$0" "$@"'
  const child = spawnSync('bash', ['-c', command, process.execPath, writer, dataDir], {
    encoding: 'utf8',
  })
  assert.equal(child.status, 0, child.stderr)
  const { answered, failed, reopened, snapshot } = JSON.parse(child.stdout)
  assert.equal(failed, 'LOG_APPEND_FAILED')
  assert(answered > 5, `${answered} were answered`)
  // Opening the log may fail, because it needs more room than the limit allows. But the log must not lose an
  // acknowledged event.
  if (typeof reopened === 'number') {
    assert.equal(reopened, answered)
    assert.equal(snapshot, 'LOG_SNAPSHOT_FAILED')
    assert.deepEqual(readdirSync(partitionPaths(dataDir, 0).snapshots), [])
  } else assert.equal(reopened, 'LOG_OPEN_FAILED')
  const log = openSqliteLog<Noted>({ dataDir, partitions: 1, own: [0], checkpointThread: false })
  try {
    assert.equal(log.state(0).lastOffset, answered)
    assert.equal(log.read(0, 1, 1_000).length, answered)
  } finally {
    void log.close()
  }
})

test('a writer that was killed leaves no lock behind', async () => {
  createLog(dataDir, 2)
  const rival = fileURLToPath(new URL('./rival-writer.ts', import.meta.url))
  const child = spawn(process.execPath, [...process.execArgv, rival, dataDir, '2', '0'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const [answer] = await once(child.stdout.setEncoding('utf8'), 'data')
  assert.equal(answer.trim(), 'open')
  assert.throws(() => open(), fault('LOG_LOCKED'))
  child.kill('SIGKILL')
  await once(child, 'exit')
  assert.equal(open().state(0).lastOffset, 1)
})

test('a thread that ends without closing the log leaves no lock behind', async () => {
  createLog(dataDir, 2)
  const worker = new Worker(new URL('./rival-writer.ts', import.meta.url), {
    argv: [dataDir, '2', '0'],
  })
  try {
    const [message] = await once(worker, 'message')
    assert.equal(message, 'open')
    assert.throws(() => open(), fault('LOG_LOCKED'))
  } finally {
    await worker.terminate()
  }
  assert.equal(open().state(0).lastOffset, 1)
})

test('a reader in another thread reads every event without a gap while the log grows', async () => {
  const log = open({ checkpointThread: true })
  const text = 'y'.repeat(3_000)
  const follower = new Worker(new URL('./follower.ts', import.meta.url), {
    workerData: { dataDir, until: 4_000 },
  })
  const done = once(follower, 'message')
  for (let from = 1; from <= 4_000; from += 20) {
    const events = range(from, from + 19).map((seq) => ({ ...note(seq), note: text }))
    await log.append(0, { events, nowMs: NOW })
    if (from % 200 === 1) await new Promise((resolve) => setImmediate(resolve))
  }
  const [seen] = await done
  assert.deepEqual(seen, { read: 4_000, gaps: 0 })
  const reader = openLogReader<Noted>(dataDir)
  assert.equal(reader.id, log.id)
  assert.equal(reader.lastOffset(0), 4_000)
  assert.equal(reader.lastOffset(1), 0)
  assert.deepEqual(reader.read(0, 4_001, 10), [])
  assert.equal(reader.read(0, 3_999, 10).length, 2)
  await reader.close()
})

test('the checkpoint thread writes back only the write-ahead files of partitions that it is asked for', async () => {
  const paths = [0, 1, 2].map((partition) => partitionPaths(dataDir, partition))
  const bytesOf = (partition: number) => statSync(paths[partition]!.database).size
  const log = open({ partitions: 3, own: [0, 1, 2] })
  for (const partition of [0, 1, 2]) {
    const say = notes(marketNamed(random))
    const events = range(1, 50).map((seq) => ({ ...say(seq), note: 'z'.repeat(10_000) }))
    await log.append(partition, { events, nowMs: NOW })
  }
  const before = [0, 1, 2].map(bytesOf)
  const checkpointer = makeCheckpointer(paths.map(({ database }) => database))
  try {
    checkpointer.ask(1)
    await eventually(() => assert.equal(checkpointer.ended(1), 1))
    checkpointer.ask(1)
    await eventually(() => assert.equal(checkpointer.ended(1), 2))
    assert.deepEqual([checkpointer.ended(0), checkpointer.ended(2)], [0, 0])
    const grown = bytesOf(1) - before[1]!
    assert(grown > 400_000, `the file that was asked for has grown by ${grown} bytes`)
    assert.deepEqual([bytesOf(0), bytesOf(2)], [before[0], before[2]])
    checkpointer.ask(2)
    checkpointer.ask(0)
    await eventually(() => assert.deepEqual([0, 1, 2].map(checkpointer.ended), [1, 2, 1]))
  } finally {
    await checkpointer.stop()
  }
})

test('each partition of the log returns only the events that were appended to it', async () => {
  const log = open({ own: [0, 1] })
  await log.append(0, { events: [note(1)], nowMs: NOW })
  await log.append(1, { events: [notes(other)(1)], nowMs: NOW + 1 })
  assert.deepEqual(
    [0, 1].map((partition) => log.read(partition, 1, 5).map((record) => record.event.marketId)),
    [[market], [other]] satisfies MarketId[][],
  )
  assert.throws(() => open({ own: [2] }), assert.AssertionError)
})
