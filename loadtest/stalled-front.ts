/**
 * `npm run soak -- stalled-front [seconds]`: sends events, as fast as possible, from a market thread to a front whose
 * event loop is blocked. Then the front continues. If events were dropped, the front must receive a loss notice. Prints
 * the size of the sent events and the growth of the process's memory. Exits with 1 if the notice is missing, or if the
 * memory grew by more than `GROWTH_MIB_MAX`.
 */

import { MessageChannel, Worker } from 'node:worker_threads'
import { Channel } from '#runtime/channel.ts'

type Told = { MarketEvents: { takes: { rows: Uint8Array[] }; answers: undefined } }

const ROWS = 100
const ROW_BYTES = 250
const MIB = 1024 * 1024
/**
 * Maximum growth of the process's memory in MiB. A link between threads queues at most 16 MiB; the rest is for garbage
 * and the worker.
 */
const GROWTH_MIB_MAX = 64

const seconds = Number(process.argv[2] ?? 10)
const worker = new Worker(new URL('./stalled-reader.ts', import.meta.url))
const { port1, port2 } = new MessageChannel()
const gate = new Int32Array(new SharedArrayBuffer(8))
worker.postMessage({ port: port2, gate }, [port2])
// Waits until the reader reports that it has begun to stall.
await new Promise((resolve) => worker.once('message', resolve))

let dropped = 0
const options = { inFlightMax: 1, batchMax: 128, deadlineMs: 1_000 }
const channel = new Channel<Told>(port1, options, { received() {}, dropped: () => dropped++ })
const beforeMib = process.memoryUsage.rss() / MIB
const startMs = performance.now()
let told = 0
let highestMib = beforeMib
while (performance.now() - startMs < seconds * 1_000) {
  for (let count = 0; count < 32; count++) {
    const rows = Array.from({ length: ROWS }, () => new Uint8Array(ROW_BYTES).fill(told))
    channel.tell('MarketEvents', { rows }, ROWS * (ROW_BYTES + 64))
    told++
  }
  await new Promise(setImmediate)
  highestMib = Math.max(highestMib, process.memoryUsage.rss() / MIB)
}
const received = new Promise<{ received: number; lost: number }>((resolve) => {
  worker.once('message', resolve)
})
Atomics.store(gate, 0, 1)
Atomics.notify(gate, 0)
const reader = await received
const growthMib = Math.round(highestMib - beforeMib)
const figures = {
  seconds,
  toldMib: Math.round((told * ROWS * ROW_BYTES) / MIB),
  growthMib,
  dropped,
  ...reader,
}
process.stdout.write(`${JSON.stringify(figures)}\n`)
if (growthMib > GROWTH_MIB_MAX || dropped > 0 !== reader.lost > 0) process.exitCode = 1
channel.close()
await worker.terminate()
