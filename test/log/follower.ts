/** Reads a partition from its beginning as it grows, and reports the number of events and gaps. */

import { setImmediate } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { openLogReader } from '#log/log-reader.ts'
import type { Noted } from './flow.ts'

const { dataDir, until } = workerData as { dataDir: string; until: number }
const reader = openLogReader<Noted>(dataDir)
let read = 0
let gaps = 0
while (read < until) {
  for (const record of reader.read(0, read + 1, 150)) {
    read++
    if (record.offset !== read || record.event.seq !== read) gaps++
  }
  await setImmediate()
}
await reader.close()
parentPort?.postMessage({ read, gaps })
