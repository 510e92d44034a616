import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import Database from 'better-sqlite3'
import { databaseCopier } from '#services/projector/thread/database-copier.ts'
import { type Copier, keepWriteAhead } from '#store/engine/write-ahead.ts'

/**
 * The test fails if the write-ahead file has not started over within this number of commits. Without the copying
 * thread, SQLite would copy the file only after far more commits.
 */
const COMMITS_MAX = 5_000

const AT_ONCE = { minMs: 0, maxMs: 0, pages: 1 }

/**
 * Makes a SQLite database. `starts` reads how often its write-ahead file has started over, from the file's header
 * (SQLite's file format, 4.1).
 */
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

test('another thread copies the write-ahead file into the database file while rows are written', async () => {
  const { path, file, insert, starts, close } = openFile()
  const writeAhead = keepWriteAhead(file, databaseCopier(path), AT_ONCE)
  try {
    let commits = 0
    const before = starts()
    while (starts() < before + 2) {
      assert(commits < COMMITS_MAX, 'it never starts over')
      await writeAhead.begun()
      insert.run(commits++)
      writeAhead.wrote()
      // Gives the other thread time to begin.
      await new Promise(setImmediate)
    }
    assert.equal(file.prepare('select count(*) from numbers').pluck().get(), commits)
  } finally {
    await writeAhead.close()
    close()
  }
})

/** A copier whose copies end on demand. */
function slowCopier(): { copier: Copier; asked: () => number; end: () => Promise<void> } {
  const copies: PromiseWithResolvers<number>[] = []
  return {
    copier: {
      copy() {
        const copy = Promise.withResolvers<number>()
        copies.push(copy)
        return copy.promise
      },
      stop: async () => {},
    },
    asked: () => copies.length,
    async end() {
      copies.at(-1)?.resolve(1)
      await new Promise(setImmediate)
    },
  }
}

test('the write-ahead file is not copied before it is large', () => {
  const { file, insert, close } = openFile()
  const { copier, asked } = slowCopier()
  const writeAhead = keepWriteAhead(file, copier, { ...AT_ONCE, pages: 100 })
  const write = (): void => {
    assert.equal(writeAhead.begun(), undefined)
    insert.run(1)
    writeAhead.wrote()
  }
  for (let commits = 0; commits < 50; commits++) write()
  assert.equal(asked(), 0)
  for (let commits = 0; commits < 100; commits++) write()
  assert.equal(asked(), 1)
  close()
})

test('most of the write-ahead file is copied while rows are written, and the rest before the next transaction', async () => {
  const { file, insert, close } = openFile()
  const { copier, asked, end } = slowCopier()
  const writeAhead = keepWriteAhead(file, copier, AT_ONCE)
  const write = (): void => {
    insert.run(1)
    writeAhead.wrote()
  }
  for (let commits = 0; commits < 3; commits++) {
    assert.equal(writeAhead.begun(), undefined)
    write()
  }
  assert.equal(asked(), 1, 'it is asked once')
  await end()
  assert.equal(asked(), 1, 'nobody writes, and nobody needs the rest copied')
  let begun = false
  const beginning = writeAhead.begun()?.then(() => {
    begun = true
  })
  await new Promise(setImmediate)
  assert.deepEqual([asked(), begun], [2, false])
  await end()
  await beginning
  assert.equal(begun, true)
  write()
  assert.equal(asked(), 3, 'and so on')
  close()
})

test('the database file is closed after the last commits are synced', async () => {
  const { file, insert, close } = openFile()
  const steps: string[] = []
  const durable = {
    async sync() {
      steps.push('sync')
      await new Promise(setImmediate)
      steps.push('synced')
    },
    close: async () => void steps.push('closed'),
  }
  const writeAhead = keepWriteAhead(file, slowCopier().copier, AT_ONCE, durable)
  insert.run(1)
  writeAhead.wrote()
  // Waits until the sync of the first commit has begun. This sync does not cover the second commit, which needs another
  // one.
  await Promise.resolve()
  insert.run(2)
  writeAhead.wrote()
  await writeAhead.close()
  assert.deepEqual(steps, ['sync', 'synced', 'sync', 'synced', 'closed'])
  close()
})

test('if the sync of a commit fails, the thread crashes without acknowledging the commit', async () => {
  const { path, file, close } = openFile()
  file.close()
  const worker = new Worker(new URL('./failing-sync.ts', import.meta.url), { workerData: path })
  const told: unknown[] = []
  worker.on('message', (message) => told.push(message))
  const [error] = (await once(worker, 'error')) as [Error]
  assert.match(error.message, /^EIO/)
  assert.deepEqual(told, [])
  close()
})
