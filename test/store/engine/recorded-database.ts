/**
 * A program that writes to a database as the store does, while its writes to files are recorded. After each
 * acknowledged commit, it writes the commit's number into the file `answered` in the same folder. So the record shows
 * when each commit was acknowledged.
 */

import { openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { databaseCopier } from '#services/projector/thread/database-copier.ts'
import { transact } from '#store/engine/database.ts'
import { openDatabase } from '#store/open-database.ts'

const [folder, count] = process.argv.slice(2)
if (folder === undefined) throw new Error('a folder is needed')
const database = await openDatabase(`sqlite:${join(folder, 'test.db')}`, { copier: databaseCopier })
const answered = openSync(join(folder, 'answered'), 'w')
let told = 0

async function write(n: number): Promise<void> {
  await transact(database, async (transaction, connection) => {
    // Two pages that must agree.
    const payload = 'x'.repeat(3_000)
    await connection.execute('insert into numbers values (?, ?)', [n, payload], 'run', transaction)
    await connection.execute('update total set n = n + ?', [n], 'run', transaction)
  })
  told = Math.max(told, n)
  writeSync(answered, `${told}\n`)
}

// Two writes at a time: the second starts while the first waits for the disk.
for (let n = 1; n <= Number(count); n += 2) await Promise.all([write(n), write(n + 1)])
process.exit()
