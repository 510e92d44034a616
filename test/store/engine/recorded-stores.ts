/**
 * Two stores that use one database in succession. The disk fails while the first store writes, and the second store
 * continues from the remaining data. Every write is recorded, and a reader is open all the time, as in an exchange.
 */

import { once } from 'node:events'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import Database from 'better-sqlite3'

const [folder, failSync] = process.argv.slice(2)
if (folder === undefined) throw new Error('a folder is needed')
const reader = new Database(join(folder, 'test.db'), { readonly: true })
const last = (): number => Number(reader.prepare('select max(n) from numbers').pluck().get() ?? 0)
const store = new URL('./recorded-store.ts', import.meta.url)
last()
const first = new Worker(store, { workerData: { folder, from: 1, to: 1_000, failSync, failAt: 6 } })
first.on('error', () => {})
await new Promise((resolve) => first.once('exit', resolve))
const from = last() + 1
const second = new Worker(store, { workerData: { folder, from, to: from + 4 } })
await once(second, 'message')
process.exit()
