/**
 * Writes a flow into a log, one batch after the other, and kills itself without closing anything. A
 * plan, if there is one, says when: `a` appends the next batch, `b` begins a snapshot, `c`
 * writes a chunk of it.
 */

import { statSync, writeSync } from 'node:fs'
import type { MarketId } from '#domain/ids.ts'
import type { SnapshotWriter } from '#log/event-log.ts'
import { partitionPaths } from '#log/log-folder.ts'
import { openSqliteLog } from '#log/sqlite-log.ts'
import { flowOf, type Noted } from './flow.ts'

const [dataDir, seed, count, plan = 'a'.repeat(Number(count))] = process.argv.slice(2)
if (dataDir === undefined) throw new Error('a data folder is needed')
const log = openSqliteLog<Noted>({
  dataDir,
  partitions: 1,
  own: [0],
  pageBytes: 512,
  checkpointThread: false,
})
const batches = flowOf(Number(seed), Number(count)).batches.values()
let marketId: MarketId | undefined
let snapshot: SnapshotWriter | undefined
for (const step of plan) {
  if (step === 'a') {
    const { value: batch } = batches.next()
    if (batch === undefined) throw new Error('the flow has no more batches')
    marketId = batch.events[0]!.marketId
    await log.append(0, batch)
  } else if (step === 'b' && marketId !== undefined) {
    snapshot = log.beginSnapshot(0, marketId, log.state(0).lastOffset, 1)
  } else {
    snapshot?.writeChunk(Buffer.alloc(700, 7))
  }
  const walBytes = statSync(partitionPaths(dataDir, 0).wal).size
  writeSync(1, `${JSON.stringify({ lastOffset: log.state(0).lastOffset, walBytes })}\n`)
}
process.kill(process.pid, 'SIGKILL')
