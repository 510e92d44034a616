import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import { type Copier, keepWriteAhead } from '#store/engine/write-ahead.ts'
import { databaseCopier } from '#threads/database-copier.ts'

/** Far fewer than those after which SQLite does it by itself. */
const COMMITS_MAX = 5_000

const AT_ONCE = { minMs: 0, maxMs: 0, pages: 1 }

/** A database file, and how often its write-ahead file has started over (SQLite's file format, 4.1). */
function openFile() {
  const folder = mkdtempSync(join(tmpdir(), 'sibyl-write-ahead-'))
  const path = join(folder, 'test.db')
  const file = new Database(path)
  file.pragma('journal_mode = WAL')
  file.exec('create table numbers (n integer)')
  const insert = file.prepare('insert into numbers values (?)')
  const starts = () => readFileSync(`${path}-wal`).readUInt32BE(12)
  return {
    path,
    file,
    insert,
    starts,
    close() {
      file.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

test('another thread copies the write-ahead file back, and it starts over while it is written', async () => {
  const { path, file, insert, starts, close } = openFile()
  const writeAhead = keepWriteAhead(file, databaseCopier(path), AT_ONCE)
  try {
    let commits = 0
    const before = starts()
    while (starts() < before + 2) {
      assert(commits < COMMITS_MAX, 'it never starts over')
      insert.run(commits++)
      writeAhead.wrote()
      // The other thread needs a moment to begin.
      await new Promise(setImmediate)
    }
    assert.equal(file.prepare('select count(*) from numbers').pluck().get(), commits)
  } finally {
    await writeAhead.close()
    close()
  }
})

test('no thread begins before the file is large', async () => {
  const { file, insert, close } = openFile()
  let asked = 0
  const copier: Copier = { ask: () => asked++, ended: () => 0, stop: async () => {} }
  const writeAhead = keepWriteAhead(file, copier, { ...AT_ONCE, pages: 100 })
  const write = (): void => {
    insert.run(1)
    writeAhead.wrote()
  }
  for (let commits = 0; commits < 50; commits++) write()
  assert.equal(asked, 0)
  for (let commits = 0; commits < 100; commits++) write()
  assert.equal(asked, 1)
  close()
})

test('the writer copies what is left only once the other thread has ended, and outside of transactions', async () => {
  const { file, insert, starts, close } = openFile()
  let ended = 0
  const asked: number[] = []
  const copier: Copier = { ask: () => asked.push(ended), ended: () => ended, stop: async () => {} }
  const writeAhead = keepWriteAhead(file, copier, AT_ONCE)
  const write = async (): Promise<void> => {
    insert.run(1)
    writeAhead.wrote()
    await new Promise(setImmediate)
  }
  const before = starts()
  for (let commits = 0; commits < 3; commits++) await write()
  assert.deepEqual([asked, starts()], [[0], before], 'it is asked once')
  ended = 1
  file.exec('begin')
  await write()
  file.exec('commit')
  await write()
  assert.deepEqual([asked, starts()], [[0], before], 'not while another transaction was open')
  await write()
  assert.deepEqual([asked, starts()], [[0, 1], before + 1])
  close()
})
