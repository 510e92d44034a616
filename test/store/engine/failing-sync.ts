/** A thread whose disk fails when a commit is to be made durable; it says what it is told of it. */

import { parentPort, workerData } from 'node:worker_threads'
import Database from 'better-sqlite3'
import { keepWriteAhead } from '#store/engine/write-ahead.ts'

const file = new Database(workerData as string)
file.pragma('journal_mode = WAL')
const copier = { copy: async () => 0, stop: async () => {} }
const durable = { sync: () => Promise.reject(new Error('EIO: i/o error')), close: async () => {} }
const writeAhead = keepWriteAhead(file, copier, undefined, durable)
file.exec('create table more (n integer)')
// It would stay for ever: nothing that it was told ends it.
setInterval(() => {}, 1_000)
writeAhead.wrote()?.then(
  () => parentPort?.postMessage('committed'),
  () => parentPort?.postMessage('failed'),
)
