/**
 * A small thread beside the writer that copies the write-ahead files into their databases, so that
 * the disk's slowest work does not stop a market. It never writes anything of its own, and its
 * checkpoints are passive: they wait for no thread and no thread waits for them.
 */

import { workerData } from 'node:worker_threads'
import Database from 'better-sqlite3'
import { ASKED, type CheckpointThreadData, FILES, STOP } from './checkpointer.ts'

/** It takes its time even when asked again at once, so that a checkpoint is worth its two syncs. */
const PAUSE_MS = 5

/** While many pages are copied more of them are written: it goes on until it has copied few. */
const PAGES_FEW = 500
const ROUNDS_MAX = 5

function checkpoint(db: Database.Database): void {
  let before = 0
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const [{ checkpointed }] = db.pragma('wal_checkpoint(PASSIVE)') as [{ checkpointed: number }]
    if (checkpointed - before <= PAGES_FEW) return
    before = checkpointed
  }
}

function run({ files, words }: CheckpointThreadData): void {
  const shared = new Int32Array(words)
  const databases = files.map((file) => {
    const db = new Database(file, { fileMustExist: true })
    db.pragma('synchronous = FULL')
    db.pragma('wal_autocheckpoint = 0')
    return db
  })
  let done = 0
  const doneOf = files.map(() => 0)
  while (Atomics.load(shared, STOP) === 0) {
    Atomics.wait(shared, ASKED, done)
    done = Atomics.load(shared, ASKED)
    for (const [file, db] of databases.entries()) {
      const asked = Atomics.load(shared, FILES + 2 * file)
      if (asked === doneOf[file]) continue
      doneOf[file] = asked
      try {
        checkpoint(db)
      } catch (error) {
        // A full or failing disk: the writer meets it too, and says so where it can be answered.
        if (!(error instanceof Database.SqliteError)) throw error
      }
      Atomics.add(shared, FILES + 2 * file + 1, 1)
    }
    Atomics.wait(shared, STOP, 0, PAUSE_MS)
  }
  for (const db of databases) db.close()
}

run(workerData as CheckpointThreadData)
