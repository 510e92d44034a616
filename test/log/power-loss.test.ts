/**
 * The power fails: of what a writer has written, the disk has what it waited for, and of the rest any part, torn
 * anywhere. Every write is recorded (`record-writes.c`), the disk of a random instant is made of the record,
 * and the log must open from it with all that was answered by then.
 */

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { arch, platform, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { createLog } from '#log/log-folder.ts'
import { openSqliteLog } from '#log/sqlite-log.ts'
import { type Random, randomFrom } from '../support/random.ts'
import { sampleOf } from '../support/sample.ts'
import { flowOf, type Noted } from './flow.ts'

const SEED = Number(process.env.TEST_SEED ?? 20_261_116)
const BATCHES = 120
const SECTOR = 512

const memory = '/dev/shm'
const folder = mkdtempSync(join(existsSync(memory) ? memory : tmpdir(), 'sibyl-power-'))
after(() => rmSync(folder, { recursive: true, force: true }))

type Op = { kind: 'w' | 's' | 't' | 'r' | 'u'; path: string; at: number; data: Buffer }

function readRecord(path: string): Op[] {
  const bytes = readFileSync(path)
  const ops: Op[] = []
  for (let at = 0; at < bytes.length; ) {
    const pathLength = bytes.readUInt16LE(at + 1)
    const head = at + 3 + pathLength
    const length = bytes.readUInt32LE(head + 8)
    ops.push({
      kind: String.fromCharCode(bytes[at]!) as Op['kind'],
      path: bytes.toString('utf8', at + 3, head),
      at: Number(bytes.readBigUInt64LE(head)),
      data: bytes.subarray(head + 12, head + 12 + length),
    })
    at = head + 12 + length
  }
  return ops
}

/** A file as it is on the disk for certain, and what was done to it since. */
type DiskFile = { bytes: Buffer; pending: Op[] }

/** The files below a folder after these operations, with the power gone right behind the last. */
function diskAfter(start: ReadonlyMap<string, Buffer>, ops: readonly Op[], random: Random) {
  const files = new Map<string, DiskFile>()
  for (const [path, bytes] of start) files.set(path, { bytes, pending: [] })
  const fileAt = (path: string): DiskFile => {
    const file = files.get(path) ?? { bytes: Buffer.alloc(0), pending: [] }
    files.set(path, file)
    return file
  }
  // Names change in their order; those that no folder was synced behind may be lost from some point on.
  const lastNameKept = lastSurvivingName(ops, random)
  for (const [index, op] of ops.entries()) {
    if (op.kind === 's') settle(files.get(op.path), () => true)
    else if (op.kind === 'r' || op.kind === 'u') {
      const file = files.get(op.path)
      if (file === undefined || index > lastNameKept) continue
      files.delete(op.path)
      if (op.kind === 'r') files.set(op.data.toString('utf8'), file)
    } else fileAt(op.path).pending.push(op)
  }
  const style = random.int(0, 2)
  for (const file of files.values()) {
    settle(file, () => (style === 0 ? false : style === 1 ? random.chance(0.5) : true), random)
  }
  return files
}

function lastSurvivingName(ops: readonly Op[], random: Random): number {
  let synced = -1
  const since: number[] = []
  for (const [index, { kind, path }] of ops.entries()) {
    const isName = kind === 'r' || kind === 'u'
    if (isName) since.push(index)
    // A folder is synced by its own name.
    else if (kind === 's' && since.some((each) => dirname(ops[each]!.path) === path)) {
      synced = index
      since.length = 0
    }
  }
  return since.length === 0 ? ops.length : Math.max(synced, random.pick([synced, ...since]))
}

/** Applies what is pending, each operation that survives; the data of one that is torn in part. */
function settle(file: DiskFile | undefined, survives: () => boolean, torn?: Random): void {
  if (file === undefined) return
  for (const { kind, at, data } of file.pending) {
    if (!survives()) continue
    if (kind === 't') {
      const bytes = Buffer.alloc(at)
      file.bytes.copy(bytes)
      file.bytes = bytes
      continue
    }
    // A sector is written whole or not at all.
    const sectors = Math.ceil((at + data.length) / SECTOR) - Math.floor(at / SECTOR)
    const kept = torn?.chance(0.3) ? torn.int(0, sectors) : sectors
    const end = Math.min(data.length, (Math.floor(at / SECTOR) + kept) * SECTOR - at)
    if (end <= 0) continue
    if (file.bytes.length < at + end) {
      file.bytes = Buffer.concat([file.bytes], at + end)
    } else file.bytes = Buffer.from(file.bytes)
    data.copy(file.bytes, at, 0, end)
  }
  file.pending = []
}

test('whenever the power fails, the log opens with all that was answered', async (t) => {
  const shim = join(folder, 'record-writes.so')
  const source = fileURLToPath(new URL('./record-writes.c', import.meta.url))
  const built = spawnSync('cc', [
    '-shared',
    '-fPIC',
    '-O1',
    '-o',
    shim,
    source,
    '-ldl',
    '-lpthread',
  ])
  if (built.status !== 0 || platform() !== 'linux' || arch() !== 'x64') {
    t.skip('a C compiler and Linux on x86-64 are needed')
    return
  }
  const dataDir = join(folder, 'data')
  mkdirSync(dataDir)
  createLog(dataDir, 1)
  // The folders that opening makes are durable before anything is written into them.
  await openSqliteLog<Noted>({ dataDir, partitions: 1, own: [0] }).close()
  const before = join(folder, 'before')
  cpSync(dataDir, before, { recursive: true })
  const record = join(folder, 'record')
  const writer = fileURLToPath(new URL('./recorded-writer.ts', import.meta.url))
  const child = spawnSync(
    process.execPath,
    [...process.execArgv, writer, dataDir, `${SEED}`, `${BATCHES}`],
    {
      encoding: 'utf8',
      env: { ...process.env, LD_PRELOAD: shim, RECORD_TO: record, RECORD_BELOW: dataDir },
    },
  )
  assert.equal(child.status, 0, child.stderr)
  const ops = readRecord(record)
  const syncs = ops.filter(({ kind, path }) => kind === 's' && path.endsWith('-wal')).length
  assert(syncs >= BATCHES, `${syncs} syncs of the write-ahead file`)
  assert(
    ops.some(({ kind, path }) => kind === 's' && path.includes('.closed')),
    'runs are made',
  )
  const flow = flowOf(SEED, BATCHES)
  const start = new Map<string, Buffer>()
  for (const name of ['log/partition-0.db', 'log/partition-0.mark', 'log/log.json']) {
    start.set(join(dataDir, name), readFileSync(join(before, name)))
  }
  const random = randomFrom(SEED)
  let lost = 0
  for (let round = 0; round < sampleOf(400, 20); round++) {
    const cut = random.int(1, ops.length)
    const done = ops.slice(0, cut)
    const files = diskAfter(start, done, random)
    rmSync(dataDir, { recursive: true })
    cpSync(before, dataDir, { recursive: true })
    for (const [path, { bytes }] of files) {
      // The memory that connections share is of no use to the next ones.
      if (path.endsWith('-shm') || path.endsWith('.lock') || path.endsWith('answered')) continue
      writeFileSync(path, bytes)
    }
    const told = done.filter(({ kind, path }) => kind === 'w' && path.endsWith('/answered'))
    const [batches, lastOffset] = (told.at(-1)?.data.toString() ?? '0 0').split(' ').map(Number)
    const why = `seed ${SEED}, round ${round}, cut ${cut}: ${batches} batches were answered`
    const log = openOrFail(dataDir, why)
    assert(log.lastOffset(0) >= lastOffset!, why)
    if (log.lastOffset(0) === lastOffset) lost++
    const hashes = flow.batches.slice(0, batches).flatMap(({ closed }) => closed!)
    const found = log.closedOrders(
      0,
      hashes.map(({ orderHash }) => orderHash),
    )
    assert.deepEqual(found, hashes, why)
    const { firstOffset } = log.state(0)
    const events = flow.batches.flatMap((batch) => batch.events)
    const read = log.read(0, firstOffset, 10_000).map(({ event }) => event)
    assert.deepEqual(read, events.slice(firstOffset - 1, log.lastOffset(0)), why)
    await log.close()
  }
  t.diagnostic(
    `seed ${SEED}: ${ops.length} operations, nothing beyond the answers in ${lost} rounds`,
  )
})

function openOrFail(dataDir: string, why: string) {
  try {
    return openSqliteLog<Noted>({ dataDir, partitions: 1, own: [0], checkpointThread: false })
  } catch (error) {
    throw new Error(why, { cause: error })
  }
}
