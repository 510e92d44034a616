/**
 * A thread whose disk fails during the sync of the first commit, and succeeds in every later sync. The thread sends the
 * results of two commits to its parent.
 */

import { parentPort, workerData } from 'node:worker_threads'
import Database from 'better-sqlite3'
import { keepWriteAhead } from '#store/engine/write-ahead.ts'

const file = new Database(workerData as string)
file.pragma('journal_mode = WAL')
const copier = { copy: async () => 0, stop: async () => {} }
let syncs = 0
const durable = {
  sync: () => (++syncs === 1 ? Promise.reject(new Error('EIO: i/o error')) : Promise.resolve()),
  close: async () => {},
}
const writeAhead = keepWriteAhead(file, copier, undefined, durable)
// The interval keeps the thread running, so that only the failed sync can end it.
setInterval(() => {}, 1_000)
for (const table of ['more', 'most']) {
  file.exec(`create table ${table} (n integer)`)
  writeAhead.wrote()?.then(
    () => parentPort?.postMessage('committed'),
    () => parentPort?.postMessage('failed'),
  )
  // Waits until the sync of the first commit is under way.
  await Promise.resolve().then(() => {})
}
