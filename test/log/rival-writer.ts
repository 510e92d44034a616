/** Opens a partition for writing, appends one event, prints the result, and keeps running until it is ended. */

import { parentPort } from 'node:worker_threads'
import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import { openSqliteLog } from '#log/partition/sqlite-log.ts'
import { type Noted, notes } from './flow.ts'

const [dataDir, partitions, own] = process.argv.slice(2)
if (dataDir === undefined) throw new Error('a data folder is needed')

function say(word: string): void {
  if (parentPort === null) process.stdout.write(`${word}\n`)
  else parentPort.postMessage(word)
}

try {
  const log = openSqliteLog<Noted>({ dataDir, partitions: Number(partitions), own: [Number(own)] })
  const marketId = `0x${'ab'.repeat(32)}` as MarketId
  await log.append(Number(own), { events: [notes(marketId)(1)], nowMs: 1 })
  say('open')
  // The listener keeps a reference to the log: a log without references may be garbage-collected, which releases its
  // lock.
  const look = () => say(String(log.lastOffset(Number(own))))
  if (parentPort === null) process.stdin.on('data', look)
  else parentPort.on('message', look)
} catch (error) {
  if (!(error instanceof Fault)) throw error
  say(error.code)
}
