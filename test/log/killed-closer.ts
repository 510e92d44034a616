/**
 * Closes ten orders with each append while another thread moves them to sorted files (runs). It prints the number of
 * the last durable order, and after some time kills itself, at any point of that thread's work.
 */

import { writeSync } from 'node:fs'
import type { OrderHash } from '#domain/ids.ts'
import { openSqliteLog } from '#log/partition/sqlite-log.ts'
import { randomFrom } from '../support/random.ts'
import { closedOrder, marketNamed, type Noted, notes } from './flow.ts'

const [dataDir, first, afterMs] = process.argv.slice(2)
if (dataDir === undefined) throw new Error('a data folder is needed')
const log = openSqliteLog<Noted>({ dataDir, partitions: 1, own: [0], closedTailMax: 300 })
const random = randomFrom(1)
const market = marketNamed(random)
const note = notes(market)
let number = Number(first)
let beganMs = 0

for (;;) {
  const closed = Array.from({ length: 10 }, () => {
    number++
    const head = ((number * 2_654_435_761) % 2 ** 32).toString(16).padStart(8, '0')
    const orderHash = `0x${head}${number.toString(16).padStart(56, '0')}` as OrderHash
    return { ...closedOrder(random, market), orderHash }
  })
  await log.append(0, { events: [note(log.lastOffset(0) + 1)], nowMs: 1, closed })
  writeSync(1, `${number}\n`)
  log.forgetClosed(0, 1_000, 100)
  // The time to the kill counts from the moment when the first orders leave the table.
  if (beganMs === 0 && number - Number(first) > 1_000) beganMs = performance.now()
  if (beganMs > 0 && performance.now() - beganMs > Number(afterMs)) {
    process.kill(process.pid, 'SIGKILL')
  }
  await new Promise(setImmediate)
}
