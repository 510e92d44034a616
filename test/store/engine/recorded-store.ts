/**
 * A store that writes numbers, one after the other. After each write is answered, the store records the number in a
 * file.
 */

import { openSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { parentPort, workerData } from 'node:worker_threads'
import { databaseCopier } from '#services/projector/thread/database-copier.ts'
import { transact } from '#store/engine/database.ts'
import { openDatabase } from '#store/open-database.ts'

const { folder, from, to, failSync, failAt } = workerData as {
  folder: string
  from: number
  to: number
  /**
   * Path of a file whose creation makes the disk fail. The thread creates it before it writes the number
   * `failAt`.
   */
  failSync?: string
  failAt?: number
}
const database = await openDatabase(`sqlite:${join(folder, 'test.db')}`, { copier: databaseCopier })
const answered = openSync(join(folder, 'answered'), 'a')
for (let n = from; n <= to; n++) {
  if (n === failAt) writeFileSync(failSync ?? '', '')
  await transact(database, async (transaction, connection) => {
    const row = [n, 'x'.repeat(3_000)]
    await connection.execute('insert into numbers values (?, ?)', row, 'run', transaction)
  })
  writeSync(answered, `${n}\n`)
}
parentPort?.postMessage('done')
