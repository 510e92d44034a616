/**
 * Tests closed orders that the log has moved from their table to sorted files (runs). The log must find each order
 * until the order may be forgotten.
 */

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import {
  closeSync,
  cpSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { Fault } from '#domain/fault.ts'
import type { OrderHash } from '#domain/ids.ts'
import { type MergeJob, mergeClosed } from '#log/closed/closed-merge.ts'
import type { RunMeta } from '#log/closed/closed-run.ts'
import { copyLog } from '#log/copy-log.ts'
import type { ClosedOrder } from '#log/event-log.ts'
import { createLog, partitionPaths } from '#log/log-folder.ts'
import { makeBackgroundJobs } from '#log/partition/background-jobs.ts'
import { Partition } from '#log/partition/partition.ts'
import { UPCASTERS, WHOLE } from '#log/partition/record.ts'
import { openSqliteLog } from '#log/partition/sqlite-log.ts'
import { eventually } from '../support/eventually.ts'
import { type Random, randomFrom } from '../support/random.ts'
import { closedOrder, marketNamed, type Noted, notes } from './flow.ts'

const SEED = Number(process.env.TEST_SEED ?? 20_260_814)
const NOW = 1_790_000_000_000
const random = randomFrom(SEED)
const market = marketNamed(random)
const note = notes(market)

/** Uses a folder in memory if there is one, because these tests do not depend on the disk. */
const memory = '/dev/shm'
let dataDir: string
let held: Partition<Noted> | undefined

beforeEach(() => {
  dataDir = mkdtempSync(join(existsSync(memory) ? memory : tmpdir(), 'sibyl-closed-runs-'))
})
afterEach(() => {
  held?.close()
  held = undefined
  rmSync(dataDir, { recursive: true, force: true })
})

type Small = { tailMax?: number; filterBytesMax?: number; runOrdersMax?: number }

/** Opens a partition that merges runs on the thread of the test, so that the test can wait for a merge. */
function open({ tailMax = 200, filterBytesMax = 2 ** 20, runOrdersMax = 2_000 }: Small = {}) {
  const { id } = createLog(dataDir, 1)
  held = new Partition<Noted>({
    home: { logId: id, partition: 0 },
    paths: partitionPaths(dataDir, 0),
    upcasters: UPCASTERS,
    form: WHOLE as never,
    closedOrdersMax: 1_000_000,
    closedTailMax: tailMax,
    runs: { filterBytesMax, runOrdersMax },
    mergeClosed: async (job) => mergeClosed(job),
    acceptLoss: false,
    askCheckpoint: () => undefined,
    checkpoints: () => 0,
  })
  return held
}

function close(partition: Partition<Noted>): void {
  partition.close()
  held = undefined
}

function reopened(partition: Partition<Noted>, small: Small = {}): Partition<Noted> {
  close(partition)
  return open(small)
}

/** Runs the maintenance steps of the partition until nothing is left to do. */
async function settle(partition: Partition<Noted>, nowSec: number): Promise<void> {
  for (let idle = 0; idle < 4; ) {
    const { passed, more } = partition.forgetClosed(nowSec, 1_000)
    idle = passed && !more ? idle + 1 : 0
    await new Promise(setImmediate)
  }
}

const runFiles = () => readdirSync(partitionPaths(dataDir, 0).runs)

function fill(partition: Partition<Noted>, orders: readonly ClosedOrder[], each = 50): void {
  for (let from = 0; from < orders.length; from += each) {
    const events = [note(partition.state().lastOffset + 1)]
    partition.append({ events, nowMs: NOW, closed: orders.slice(from, from + each) })
  }
}

const some = (count: number, forgetAfterSec = 2_000) =>
  Array.from({ length: count }, () => closedOrder(random, market, forgetAfterSec))

const hashesOf = (orders: readonly ClosedOrder[]) => orders.map(({ orderHash }) => orderHash)

test('the log finds closed and reopened orders while it writes and merges their files', async () => {
  for (let round = 0; round < 2; round++) {
    const known: Known = new Map()
    const chance = randomFrom(SEED + round)
    rmSync(dataDir, { recursive: true, force: true })
    let partition = open({ filterBytesMax: round === 1 ? 0 : 2 ** 20 })
    let nowSec = 1_000
    let seq = 0
    for (let turn = 0; turn < 150; turn++) {
      const { closed, reopenedHashes } = nextBatch(chance, known, nowSec)
      const events = [note(++seq)]
      partition.append({ events, nowMs: NOW, closed, reopened: reopenedHashes })
      for (const hash of reopenedHashes) known.get(hash)!.isOpen = true
      for (const order of closed) known.set(order.orderHash, { order, isOpen: false })
      if (chance.chance(0.5)) partition.forgetClosed(nowSec, 1_000)
      // Sometimes the test waits for the merge before the next append, and sometimes it does not.
      if (chance.chance(0.5)) await new Promise(setImmediate)
      if (chance.chance(0.05)) partition = reopened(partition)
      if (chance.chance(0.05)) partition.reopen()
      if (chance.chance(0.1)) nowSec += 100
      if (turn % 10 === 9) check(partition, known, nowSec)
    }
    await settle(partition, nowSec)
    check(partition, known, nowSec)
    await partition.endSnapshots()
    assert(runFiles().length > 0 && runFiles().length < 12, `${runFiles().length} runs`)
    partition = reopened(partition)
    partition.forgetClosed(nowSec, 1_000)
    check(partition, known, nowSec)
    close(partition)
  }
})

/** Orders that were closed; some of them are open again. */
type Known = Map<OrderHash, { readonly order: ClosedOrder; isOpen: boolean }>

function nextBatch(
  chance: Random,
  known: Known,
  nowSec: number,
): { closed: ClosedOrder[]; reopenedHashes: OrderHash[] } {
  const all = [...known.keys()]
  const closed = Array.from({ length: chance.int(1, 60) }, () =>
    closedOrder(chance, market, nowSec + chance.pick([50, 150, 5_000])),
  )
  const reopenedHashes = new Set<OrderHash>()
  for (let times = all.length === 0 ? 0 : chance.int(0, 8); times > 0; times--) {
    const hash = chance.pick(all)
    const { order, isOpen } = known.get(hash)!
    // An order that may be forgotten cannot be reopened, so it is skipped.
    if (order.forgetAfterSec < nowSec) continue
    if (!isOpen && chance.chance(0.5)) reopenedHashes.add(hash)
    else if (!reopenedHashes.has(hash)) {
      closed.push({ ...closedOrder(chance, market, nowSec + 5_000), orderHash: hash })
    }
  }
  const once = new Map(closed.map((order) => [order.orderHash, order]))
  for (const hash of reopenedHashes) once.delete(hash)
  return { closed: [...once.values()], reopenedHashes: [...reopenedHashes] }
}

/** Checks that the partition finds every order that must be kept. Orders that may be forgotten are not checked. */
function check(partition: Partition<Noted>, known: Known, nowSec: number): void {
  const hashes = [...known.keys()]
  const found = partition.closedOrders(hashes)
  for (const [place, hash] of hashes.entries()) {
    const { order, isOpen } = known.get(hash)!
    if (order.forgetAfterSec < nowSec) continue
    assert.deepEqual(found[place], isOpen ? undefined : order, `seed ${SEED}: ${hash}`)
  }
}

test('closed-order files need at most four bytes of memory per order, and their filters stay within a limit', async () => {
  const orders = some(8_000)
  let partition = open({ tailMax: 500, runOrdersMax: 100_000 })
  fill(partition, orders, 500)
  await settle(partition, 1_000)
  for (const filterBytesMax of [2 ** 20, 8_192, 0]) {
    partition = reopened(partition, { tailMax: 500, runOrdersMax: 100_000, filterBytesMax })
    const { orders: inRuns, filterBytes, memory } = partition.closedRuns()
    assert(inRuns > 7_400)
    assert(filterBytes <= filterBytesMax)
    assert(memory <= 4 * 8_000, `${memory} bytes for ${inRuns} orders`)
    assert.deepEqual(partition.closedOrders(hashesOf(orders)), orders)
    const unseen = hashesOf(some(2_000))
    assert(partition.closedOrders(unseen).every((order) => order === undefined))
  }
})

test('if memory is too small for all filters of closed-order files, the newest files keep their filters', async () => {
  const small = { tailMax: 200, runOrdersMax: 200, filterBytesMax: 8_192 }
  const partition = open(small)
  const batches = [some(200), some(200), some(200)]
  const names: string[] = []
  for (const orders of batches) {
    fill(partition, orders)
    await settle(partition, 1_000)
    names.push(runFiles().find((name) => !names.includes(name))!)
  }
  assert.equal(partition.closedRuns().filterBytes, 8_192)
  // Damages all three files. The filters of the two newest are in memory and are not read again. So the log notices
  // only the damage in the oldest file.
  for (const name of names) {
    const file = openSync(join(partitionPaths(dataDir, 0).runs, name), 'r+')
    writeSync(file, Buffer.alloc(4_096, 0x5a), 0, 4_096, 200 * 128)
    closeSync(file)
  }
  const [oldest, ...newest] = batches
  for (const orders of newest) {
    assert.deepEqual(partition.closedOrders(hashesOf(orders)), orders)
  }
  assert.throws(() => partition.closedOrders(hashesOf(oldest!)), /page 0 of its filter is damaged/)
})

test('a file of closed orders is rewritten when half its orders have expired, and deleted when all have', async () => {
  const partition = open({ runOrdersMax: 200 })
  const early = some(200, 1_500)
  const mixed = [...some(120, 1_600), ...some(80, 9_000)]
  fill(partition, early)
  await settle(partition, 1_000)
  fill(partition, mixed)
  await settle(partition, 1_000)
  assert.equal(partition.closedRuns().orders, 400)
  await settle(partition, 1_501)
  assert.equal(partition.closedRuns().orders, 200)
  await settle(partition, 1_601)
  assert.equal(partition.closedRuns().orders, 80)
  assert.deepEqual(partition.closedOrders(hashesOf(mixed.slice(120))), mixed.slice(120))
  await settle(partition, 9_001)
  assert.equal(partition.closedRuns().orders, 0)
  await partition.endSnapshots()
  assert.deepEqual(runFiles(), [])
})

/** Opens a small partition that uses `merge` to write its files of closed orders. */
function openMergingBy(merge: typeof mergeClosed): Partition<Noted> {
  const { id } = createLog(dataDir, 1)
  held = new Partition<Noted>({
    home: { logId: id, partition: 0 },
    paths: partitionPaths(dataDir, 0),
    upcasters: UPCASTERS,
    form: WHOLE as never,
    closedOrdersMax: 250,
    closedTailMax: 100,
    runs: { filterBytesMax: 0, runOrdersMax: 10_000 },
    mergeClosed: async (job) => merge(job),
    acceptLoss: false,
    askCheckpoint: () => undefined,
    checkpoints: () => 0,
  })
  return held
}

test('if merging files of closed orders fails, no order is lost and the merge is tried again', async () => {
  const orders = some(200)
  let fails = true
  const partition = openMergingBy((job) => {
    if (fails) throw new Fault('LOG_MERGE_FAILED', 'no room', { retryable: true })
    return mergeClosed(job)
  })
  fill(partition, orders.slice(0, 150))
  partition.forgetClosed(1_000, 1_000)
  await new Promise(setImmediate)
  assert.throws(() => partition.forgetClosed(1_000, 1_000), /no room/)
  fill(partition, orders.slice(150))
  assert.deepEqual(partition.closedOrders(hashesOf(orders)), orders)
  assert.equal(partition.closedOrderRoom(), 50)
  fails = false
  await settle(partition, 1_000)
  assert.equal(partition.closedOrderRoom(), 200, 'frozen are the first 150, and nothing is lost')
  assert.deepEqual(partition.closedOrders(hashesOf(orders)), orders)
})

test('if a new closed-order file cannot be opened, the log keeps its orders and writes the file again', async () => {
  const orders = some(200)
  const spoils = [
    (path: string) => {
      rmSync(path)
      symlinkSync(path, path)
    },
    (path: string) => truncateSync(path, 1_000),
  ]
  const partition = openMergingBy((job) => {
    const run = mergeClosed(job)
    spoils.pop()?.(join(job.folder, job.name))
    return run
  })
  const failed = (error: unknown) => error instanceof Fault && error.code === 'LOG_MERGE_FAILED'
  fill(partition, orders.slice(0, 150))
  for (const _ of [...spoils]) {
    partition.forgetClosed(1_000, 1_000)
    await new Promise(setImmediate)
    assert.throws(() => partition.forgetClosed(1_000, 1_000), failed)
    assert.equal(partition.closedRuns().orders, 0)
    partition.reopen()
    assert.deepEqual(partition.closedOrders(hashesOf(orders.slice(0, 150))), orders.slice(0, 150))
  }
  fill(partition, orders.slice(150))
  await settle(partition, 1_000)
  assert.equal(partition.closedRuns().orders, 200)
  assert.deepEqual(partition.closedOrders(hashesOf(orders)), orders)
  await partition.endSnapshots()
  assert.equal(runFiles().length, 1)
})

test('if writing closed orders in the background fails, the next attempt starts a new thread', async () => {
  const orders = some(100)
  fill(open(), orders)
  const { database, runs: folder } = partitionPaths(dataDir, 0)
  const job: MergeJob = {
    ...{ folder, name: 'run-of-test', level: 0, seeds: [1, 2], nowSec: 1_000, isOldest: true },
    home: { logId: createLog(dataDir, 1).id, partition: 0 },
    source: { database, from: 0, to: 100 },
  }
  const jobs = makeBackgroundJobs()
  try {
    await assert.rejects(jobs.run('merge', { ...job, source: undefined as never }))
    assert.equal((await jobs.run('merge', job))?.orders, 100)
  } finally {
    await jobs.stop()
  }
})

/**
 * Writes closed orders to a run (a sorted file) in a separate process, and returns its output. A file of this process
 * can have at most `fileKiBMax` KiB.
 */
function mergedElsewhere(what: Pick<MergeJob, 'source'>, fileKiBMax: number) {
  const { runs: folder } = partitionPaths(dataDir, 0)
  const home = { logId: createLog(dataDir, 1).id, partition: 0 }
  const job: MergeJob = {
    ...{ folder, name: 'run-of-test', home, level: 0, seeds: [1, 2], ...what },
    ...{ nowSec: 1_000, isOldest: true },
  }
  const merger = fileURLToPath(new URL('./full-merger.ts', import.meta.url))
  const command = `ulimit -S -f ${fileKiBMax} && exec "$0" "$@"`
  const args = [process.execPath, ...process.execArgv, merger, JSON.stringify(job)]
  const child = spawnSync('bash', ['-c', command, ...args], { encoding: 'utf8' })
  assert.equal(child.status, 0, child.stderr)
  return JSON.parse(child.stdout) as unknown
}

const onLinux = { skip: !existsSync('/proc/self/fd') && 'Linux is needed' }

test(
  'if a closed-order file does not fit on the disk, it is deleted and its handle is closed',
  onLinux,
  () => {
    fill(open(), some(400))
    const { database } = partitionPaths(dataDir, 0)
    // The limit leaves room for the orders, which take 50 KiB, but not for the whole filter.
    const said = mergedElsewhere({ source: { database, from: 0, to: 400 } }, 52)
    assert.deepEqual(said, { failed: 'EFBIG', leftOpen: 0 })
    assert.deepEqual(runFiles(), [])
  },
)

test(
  'if a merge cannot open one of its files, it closes the files that it has opened',
  onLinux,
  async () => {
    const partition = open({ tailMax: 100 })
    for (const _ of [1, 2]) {
      fill(partition, some(100))
      await settle(partition, 1_000)
    }
    const { database, runs: folder } = partitionPaths(dataDir, 0)
    const db = new Database(database, { readonly: true })
    const named = db.prepare('SELECT json FROM closed_runs').pluck().all() as string[]
    db.close()
    const runs = named.map((json) => JSON.parse(json) as RunMeta)
    assert.equal(runs.length, 2)
    rmSync(join(folder, runs[1]!.name))
    const said = mergedElsewhere({ source: { runs } }, 10_000)
    assert.deepEqual(said, { failed: 'LOG_CORRUPT', leftOpen: 0 })
  },
)

test('a damaged or missing closed-order file is reported as LOG_CORRUPT, and the log does not change it', async () => {
  const orders = some(400)
  let partition = open({ tailMax: 400 })
  fill(partition, orders)
  await settle(partition, 1_000)
  close(partition)
  const [name] = runFiles()
  const path = join(partitionPaths(dataDir, 0).runs, name!)
  const whole = readFileSync(path)
  const flip = (at: number) => {
    const bytes = Buffer.from(whole)
    bytes[at]! ^= 4
    writeFileSync(path, bytes)
  }
  const corrupt = (error: unknown) => error instanceof Fault && error.code === 'LOG_CORRUPT'
  const dataBytes = 400 * 128
  for (const at of [dataBytes + 5, whole.length - 1, whole.length - 60]) {
    flip(at)
    assert.throws(() => open({ tailMax: 400 }), corrupt, `byte ${at}`)
  }
  writeFileSync(path, whole.subarray(0, -1))
  assert.throws(() => open({ tailMax: 400 }), corrupt)
  rmSync(path)
  assert.throws(() => open({ tailMax: 400 }), corrupt)
  for (let at = 7; at < dataBytes; at += 3_001) {
    flip(at)
    partition = open({ tailMax: 400 })
    assert.throws(() => partition.closedOrders(hashesOf(orders)), corrupt, `byte ${at}`)
    close(partition)
  }
  // Without memory for filters, the log reads the filter from the file, and must detect the damage. Otherwise a damaged
  // filter could make a closed order count as new.
  flip(dataBytes + 5)
  partition = open({ tailMax: 400, filterBytesMax: 0 })
  assert.throws(() => partition.closedOrders(hashesOf(orders)), corrupt)
  close(partition)
  writeFileSync(path, whole)
  partition = open({ tailMax: 400 })
  assert.deepEqual(partition.closedOrders(hashesOf(orders)), orders)
})

test('the log copy command refuses a log whose filter of closed orders is damaged', async () => {
  const partition = open({ tailMax: 400 })
  fill(partition, some(400))
  await settle(partition, 1_000)
  close(partition)
  const path = join(partitionPaths(dataDir, 0).runs, runFiles()[0]!)
  const bytes = readFileSync(path)
  bytes[400 * 128 + 5]! ^= 4
  writeFileSync(path, bytes)
  const copy = join(dataDir, 'copy')
  assert.throws(
    () => copyLog(dataDir, copy),
    (error) => error instanceof Fault && error.code === 'LOG_CORRUPT',
  )
})

test('the log deletes closed-order files that its list lacks, and does not open if the list is empty', async () => {
  let partition = open()
  fill(partition, some(200))
  await settle(partition, 1_000)
  close(partition)
  writeFileSync(join(partitionPaths(dataDir, 0).runs, 'run-of-none'), 'x')
  partition = open()
  assert.equal(runFiles().length, 1)
  close(partition)
  const db = new Database(partitionPaths(dataDir, 0).database)
  db.exec('DELETE FROM closed_runs')
  db.close()
  assert.throws(() => open(), /runs of closed orders were written/)
})

test('a log from a version without closed-order files can be copied, opened and read completely', async () => {
  const orders = some(100)
  let partition = open()
  fill(partition, orders)
  close(partition)
  const db = new Database(partitionPaths(dataDir, 0).database)
  db.exec('DROP TABLE closed_runs')
  db.close()
  // Operators are advised to copy the log before the first start of a newer version. So this copy is in the old format.
  const copy = join(dataDir, 'copy')
  copyLog(dataDir, copy)
  const log = openSqliteLog<Noted>({ dataDir: copy, partitions: 1, own: [0] })
  assert.deepEqual(log.closedOrders(0, hashesOf(orders)), orders)
  await log.close()
  partition = open()
  assert.deepEqual(partition.closedOrders(hashesOf(orders)), orders)
  fill(partition, some(200))
  await settle(partition, 1_000)
  assert.equal(partition.closedRuns().orders, 300)
  assert.deepEqual(partition.closedOrders(hashesOf(orders)), orders)
})

test('a log writer that is killed while it merges files loses no closed order that it had acknowledged', async () => {
  const writer = fileURLToPath(new URL('./killed-closer.ts', import.meta.url))
  const options = { dataDir, partitions: 1, own: [0], closedTailMax: 300 } as const
  let answered = 0
  for (let round = 0; round < 3; round++) {
    const afterMs = random.int(20, 120)
    const child = spawnSync(
      process.execPath,
      [...process.execArgv, writer, dataDir, `${answered}`, `${afterMs}`],
      { encoding: 'utf8' },
    )
    assert.equal(child.signal, 'SIGKILL', child.stderr)
    const told = child.stdout.trim().split('\n').map(Number)
    answered = Math.max(answered, ...told)
    const copy = `${dataDir}-copy`
    cpSync(dataDir, copy, { recursive: true })
    const log = openSqliteLog<Noted>({ ...options, dataDir: copy })
    const hashes = Array.from({ length: answered }, (_, number) => numberedHash(number + 1))
    const found = log.closedOrders(0, hashes)
    assert.equal(found.indexOf(undefined), -1, `of ${answered}`)
    await log.close()
    rmSync(copy, { recursive: true })
  }
  const log = openSqliteLog<Noted>(options)
  try {
    await eventually(() => {
      log.forgetClosed(0, 1_000, 1_000)
      assert(runFiles().length > 0)
    })
  } finally {
    await log.close()
  }
})

const numberedHash = (number: number) =>
  `0x${((number * 2_654_435_761) % 2 ** 32).toString(16).padStart(8, '0')}${number.toString(16).padStart(56, '0')}` as OrderHash
