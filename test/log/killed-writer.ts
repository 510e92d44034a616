/** Writes a flow into a log, one batch after the other, and kills itself without closing anything. */

import { statSync, writeSync } from 'node:fs'
import { partitionPaths } from '#log/log-folder.ts'
import { openSqliteLog } from '#log/partition/sqlite-log.ts'
import { flowOf, type Noted } from './flow.ts'

const [dataDir, seed, count] = process.argv.slice(2)
if (dataDir === undefined) throw new Error('a data folder is needed')
const log = openSqliteLog<Noted>({
  dataDir,
  partitions: 1,
  own: [0],
  pageBytes: 512,
  checkpointThread: false,
})
for (const batch of flowOf(Number(seed), Number(count)).batches) {
  const { lastOffset } = await log.append(0, batch)
  const walBytes = statSync(partitionPaths(dataDir, 0).wal).size
  writeSync(1, `${JSON.stringify({ lastOffset, walBytes })}\n`)
}
process.kill(process.pid, 'SIGKILL')
