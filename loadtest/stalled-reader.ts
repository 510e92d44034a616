/**
 * The front of `stalled-front.ts`. It blocks its thread until `stalled-front.ts` sets `gate`. Then it receives the
 * queued messages, and reports how many events and loss notices it received.
 */

import { type MessagePort, parentPort } from 'node:worker_threads'
import { Channel } from '#runtime/channel.ts'

/** If nothing arrives for this long, the front has received everything. */
const QUIET_MS = 300

parentPort?.once('message', ({ port, gate }: { port: MessagePort; gate: Int32Array }) => {
  let received = 0
  let lost = 0
  const options = { inFlightMax: 1, batchMax: 128, deadlineMs: 1_000 }
  new Channel(port, options, {
    received: () => received++,
    lost: () => lost++,
  })
  parentPort?.postMessage('stalls')
  setImmediate(() => {
    Atomics.wait(gate, 0, 0)
    let before = -1
    setInterval(() => {
      if (received === before) parentPort?.postMessage({ received, lost })
      before = received
    }, QUIET_MS)
  })
})
