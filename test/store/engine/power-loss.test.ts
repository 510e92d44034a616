/**
 * The power fails at a random instant while the database is written. The database must be intact when it is opened from
 * the content of the disk, and contain all writes acknowledged by then.
 */

import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import Database from 'better-sqlite3'
import { diskAfter, type Op, recordWrites } from '../../support/lost-power.ts'
import { randomFrom } from '../../support/random.ts'
import { sampleOf } from '../../support/sample.ts'

const SEED = Number(process.env.TEST_SEED ?? 20_261_117)
/** Number of commits, each of a few pages. They are enough for SQLite to restart its write-ahead file several times. */
const COMMITS = 3_000
const MEMORY = '/dev/shm'

/** Makes a folder with a database; returns the bytes of its file. */
function makeDatabase(t: TestContext) {
  const scratch = mkdtempSync(join(existsSync(MEMORY) ? MEMORY : tmpdir(), 'sibyl-power-'))
  t.after(() => rmSync(scratch, { recursive: true, force: true }))
  const folder = join(scratch, 'data')
  const path = join(folder, 'test.db')
  mkdirSync(folder)
  const made = new Database(path)
  made.pragma('journal_mode = WAL')
  made.exec('create table numbers (n integer primary key, payload text)')
  made.exec('create table total (n integer); insert into total values (0)')
  made.close()
  const start = new Map([[path, readFileSync(path)]])
  return { scratch, folder, path, start }
}

/**
 * Replaces the folder's files with those that the disk has kept. Leaves out the shared memory (`-shm`) and the test's
 * file `answered`.
 */
function layOut(folder: string, disk: ReturnType<typeof diskAfter>): void {
  rmSync(folder, { recursive: true })
  mkdirSync(folder)
  for (const [each, { bytes }] of disk) {
    if (!each.endsWith('-shm') && !each.endsWith('/answered')) writeFileSync(each, bytes)
  }
}

test('after a power failure at any moment, the database is intact and contains every acknowledged write', (t) => {
  const { scratch, folder, path, start } = makeDatabase(t)
  const writer = new URL('./recorded-database.ts', import.meta.url)
  const ops = recordWrites(writer, [folder, `${COMMITS}`], { below: folder, scratch })
  if (ops === undefined) {
    t.skip('a C compiler and Linux are needed')
    return
  }
  const startsOver = ops.filter(
    ({ kind, path, at }) => kind === 'w' && at === 0 && path.endsWith('-wal'),
  )
  assert(startsOver.length >= 3, `the write-ahead file began ${startsOver.length} times`)
  const random = randomFrom(SEED)
  let beyond = 0
  for (let round = 0; round < sampleOf(400, 20); round++) {
    const cut = random.int(1, ops.length)
    const done: readonly Op[] = ops.slice(0, cut)
    const told = done.findLast(({ kind, path }) => kind === 'w' && path.endsWith('/answered'))
    const answered = Number(told?.data.toString() ?? 0)
    const why = `seed ${SEED}, round ${round}, cut ${cut}: ${answered} were answered`
    layOut(folder, diskAfter(start, done, random))
    const file = new Database(path)
    assert.equal(file.pragma('integrity_check', { simple: true }), 'ok', why)
    const found = file
      .prepare('select count(*) as count, max(n) as last, sum(n) as sum from numbers')
      .get() as { count: number; last: number | null; sum: number | null }
    const total = file.prepare('select n from total').pluck().get()
    file.close()
    assert.deepEqual([found.count, found.sum ?? 0], [found.last ?? 0, total], why)
    assert(found.count >= answered, `${why}, ${found.count} are there`)
    if (found.count > answered) beyond++
  }
  t.diagnostic(`seed ${SEED}: ${ops.length} operations, more than was answered in ${beyond} rounds`)
})

test('every acknowledged write survives a power failure, even after a failed sync of the database file', (t) => {
  const { scratch, folder, path, start } = makeDatabase(t)
  const program = new URL('./recorded-stores.ts', import.meta.url)
  const ops = recordWrites(program, [folder, join(scratch, 'fail-sync')], {
    ...{ below: folder, scratch },
  })
  if (ops === undefined) {
    t.skip('a C compiler and Linux are needed')
    return
  }
  assert.equal(ops.filter(({ kind }) => kind === 'e').length, 1, 'one sync failed')
  const answered = ops
    .filter(({ kind, path: each }) => kind === 'w' && each.endsWith('/answered'))
    .map(({ data }) => Number(data.toString()))
  layOut(folder, diskAfter(start, ops, randomFrom(SEED)))
  const file = new Database(path)
  const there = new Set(file.prepare('select n from numbers').pluck().all())
  file.close()
  assert(answered.length > 8, `${answered.length} were answered`)
  assert.deepEqual(
    answered.filter((n) => !there.has(n)),
    [],
    'they were answered, and are lost',
  )
})
