/**
 * A process that takes partitions of the log and appends to them repeatedly, until it is killed: `log-writer.ts url
 * folder name`. It prints a line for every acknowledged append.
 */

import { randomInt } from 'node:crypto'
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { MarketId } from '#domain/ids.ts'
import { openMysqlLog } from '#log/server/mysql-log.ts'
import type { Noted } from '../log/flow.ts'
import { RACED_PARTITIONS } from './log-crash.ts'

const [url = '', folder = '', name = ''] = process.argv.slice(2)
/** Average number of appends before the writer releases a partition. */
const APPENDS = 40
const marketId = `0x${'ab'.repeat(32)}` as MarketId

let number = 0
for (;;) {
  const partition = randomInt(RACED_PARTITIONS)
  const dataDir = join(folder, `${partition}`)
  // Sometimes the writer has lost its copy.
  if (randomInt(10) === 0) rmSync(dataDir, { recursive: true, force: true })
  mkdirSync(dataDir, { recursive: true })
  try {
    const log = await openMysqlLog<Noted>({
      ...{ url, dataDir, partitions: RACED_PARTITIONS, own: [partition], checkpointThread: false },
      ...{ appendMsMax: 3_000, baseEveryBytes: 20_000 },
    })
    try {
      for (let left = randomInt(2 * APPENDS); left > 0; left--) {
        const note = `${name}.${++number}`
        const events: Noted[] = [{ type: 'Noted', marketId, seq: number, note }]
        const { firstOffset } = await log.append(partition, { events, nowMs: Date.now() })
        process.stdout.write(`${partition} ${firstOffset} ${note}\n`)
      }
    } finally {
      await log.close()
    }
  } catch (error) {
    // Another writer took the partition, the connection was cut, or the servers are down: try again.
    process.stderr.write(`${name}: ${(error as Error).message}\n`)
    await pause(50)
  }
}
