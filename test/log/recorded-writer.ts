/**
 * Writes batches of events into a log, and takes snapshots and truncates the log like a market thread. Meanwhile the
 * test records every write. After each acknowledgement, this program adds a line to a file of the same folder, so that
 * the record shows when each batch was acknowledged.
 */

import { openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { openSqliteLog } from '#log/partition/sqlite-log.ts'
import { flowOf, type Noted } from './flow.ts'

const [dataDir, seed, count] = process.argv.slice(2)
if (dataDir === undefined) throw new Error('a data folder is needed')
const TAIL = 60
const log = openSqliteLog<Noted>({
  dataDir,
  partitions: 1,
  own: [0],
  closedTailMax: TAIL,
  closedOrdersMax: 10_000,
  checkpointThread: false,
})
const answered = openSync(join(dataDir, 'answered'), 'w')
const { batches, markets } = flowOf(Number(seed), Number(count))
for (const [index, batch] of batches.entries()) {
  const { lastOffset } = await log.append(0, batch)
  writeSync(answered, `${index + 1} ${lastOffset}\n`)
  log.forgetClosed(0, 1_000, 100)
  // At every twentieth batch, waits until all orders above the limit of the table have moved to sorted files (runs).
  while (index % 20 === 19 && log.closedOrderRoom(0) <= 10_000 - TAIL) {
    log.forgetClosed(0, 1_000, 100)
    await new Promise(setImmediate)
  }
  if (index % 15 === 14) {
    for (const market of markets) {
      const writer = log.beginSnapshot(0, market, log.lastOffset(0), index)
      writer.writeChunk(Buffer.from(`snapshot ${index}`))
      await writer.commit()
    }
    log.truncate(0, log.lastOffset(0), log.lastOffset(0), 20)
  }
  await new Promise(setImmediate)
}
process.exit()
