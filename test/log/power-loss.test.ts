/**
 * The power fails at a random instant while a log is written. The log must open from the content of the disk, with all
 * events acknowledged by then.
 */

import assert from 'node:assert/strict'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createLog } from '#log/log-folder.ts'
import { openSqliteLog } from '#log/partition/sqlite-log.ts'
import { diskAfter, type Op, recordWrites } from '../support/lost-power.ts'
import { randomFrom } from '../support/random.ts'
import { sampleOf } from '../support/sample.ts'
import { flowOf, type Noted } from './flow.ts'

const SEED = Number(process.env.TEST_SEED ?? 20_261_116)
const BATCHES = 120

const memory = '/dev/shm'
const folder = mkdtempSync(join(existsSync(memory) ? memory : tmpdir(), 'sibyl-power-'))
after(() => rmSync(folder, { recursive: true, force: true }))

test('after a power failure at any moment, the log opens with every answered event', async (t) => {
  const dataDir = join(folder, 'data')
  mkdirSync(dataDir)
  createLog(dataDir, 1)
  // The first opening makes the log's folders and files. Writes are recorded only later, so these count as durable.
  await openSqliteLog<Noted>({ dataDir, partitions: 1, own: [0] }).close()
  const before = join(folder, 'before')
  cpSync(dataDir, before, { recursive: true })
  const writer = new URL('./recorded-writer.ts', import.meta.url)
  const ops = recordWrites(writer, [dataDir, `${SEED}`, `${BATCHES}`], {
    below: dataDir,
    scratch: folder,
  })
  if (ops === undefined) {
    t.skip('a C compiler and Linux are needed')
    return
  }
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
    const done: readonly Op[] = ops.slice(0, cut)
    const files = diskAfter(start, done, random)
    rmSync(dataDir, { recursive: true })
    cpSync(before, dataDir, { recursive: true })
    for (const [path, { bytes }] of files) {
      // After a power failure, files of shared memory and locks do not exist.
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
