/**
 * Closes ten orders with each append, while another thread moves closed orders to sorted files (runs). Prints the
 * number of the last durable order after each append. Kills itself after `afterMs`, at any point of the other thread's
 * work.
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
  // Once 1,000 orders are closed, the first orders leave the table. From then on, `afterMs` is counted.
  if (beganMs === 0 && number - Number(first) > 1_000) beganMs = performance.now()
  if (beganMs > 0 && performance.now() - beganMs > Number(afterMs)) {
    process.kill(process.pid, 'SIGKILL')
  }
  await new Promise(setImmediate)
}
