/**
 * Appends until it fails, opens the partition again, and writes a snapshot that is too large. Prints the last
 * acknowledged offset and the result of each step. The parent process limits the size of files.
 */

import { writeSync } from 'node:fs'
import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import { openSqliteLog } from '#log/partition/sqlite-log.ts'
import { type Noted, notes } from './flow.ts'

const [dataDir] = process.argv.slice(2)
if (dataDir === undefined) throw new Error('a data folder is needed')
const log = openSqliteLog<Noted>({ dataDir, partitions: 1, own: [0], checkpointThread: false })
const MARKET = `0x${'ab'.repeat(32)}` as MarketId
const note = notes(MARKET, 'x'.repeat(9_000))

function attempt(work: () => number): number | string {
  try {
    return work()
  } catch (error) {
    if (error instanceof Fault) return error.code
    throw error
  }
}

let answered = 0
let failed = ''
while (failed === '') {
  try {
    answered = (await log.append(0, { events: [note(answered + 1)], nowMs: 1 })).lastOffset
  } catch (error) {
    if (!(error instanceof Fault)) throw error
    failed = error.code
  }
}
const reopened = attempt(() => log.reopen(0).lastOffset)

/** Writes a snapshot that exceeds the maximum size of a file. */
async function tooLarge(): Promise<string> {
  const writer = log.beginSnapshot(0, MARKET, answered, answered)
  try {
    for (let chunk = 0; chunk < 20; chunk++) writer.writeChunk(Buffer.alloc(65_536))
    await writer.commit()
    return 'committed'
  } catch (error) {
    return (error as Fault).code
  }
}

const snapshot = typeof reopened === 'number' ? await tooLarge() : ''
await log.close()
writeSync(1, JSON.stringify({ answered, failed, reopened, snapshot }))
process.exit()
