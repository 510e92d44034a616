/**
 * A small thread beside the writer that copies write-ahead files into their databases, so that slow disk work does not
 * stop a market. It writes no data of its own. Its checkpoints are passive: they wait for no thread, and no thread
 * waits for them.
 */

import { parentPort, workerData } from 'node:worker_threads'
import Database from 'better-sqlite3'
import { ASKED, type CheckpointThreadData, FILES, STOP, WORDS } from './checkpointer.ts'

/** Minimum pause between checkpoints, because each checkpoint costs two syncs. */
const PAUSE_MS = 5

/**
 * While this thread copies pages, the writer adds more. So the thread repeats the checkpoint until a round copies few
 * pages, at most `ROUNDS_MAX` times.
 */
const PAGES_FEW = 500
const ROUNDS_MAX = 5

/**
 * Checkpoints a database until a round copies few pages, in at most `ROUNDS_MAX` rounds. Returns the number
 * of pages in the write-ahead file.
 */
function checkpoint(db: Database.Database): number {
  let before = 0
  for (let round = 1; ; round++) {
    const [{ log, checkpointed }] = db.pragma('wal_checkpoint(PASSIVE)') as [
      { log: number; checkpointed: number },
    ]
    if (checkpointed - before <= PAGES_FEW || round === ROUNDS_MAX) return log
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
      const asked = Atomics.load(shared, FILES + WORDS * file)
      if (asked === doneOf[file]) continue
      doneOf[file] = asked
      try {
        Atomics.store(shared, FILES + WORDS * file + 2, checkpoint(db))
      } catch (error) {
        // Ignore an SQLite error: the disk is full or fails, and the writer gets the same error and reports it.
        if (!(error instanceof Database.SqliteError)) throw error
      }
      Atomics.store(shared, FILES + WORDS * file + 1, asked)
      parentPort?.postMessage(file)
    }
    Atomics.wait(shared, STOP, 0, PAUSE_MS)
  }
  for (const db of databases) db.close()
}

run(workerData as CheckpointThreadData)
