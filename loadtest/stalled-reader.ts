/** The front of `stalled-front.ts`: takes nothing until it is let go on, then says what it heard. */

import { type MessagePort, parentPort } from 'node:worker_threads'
import { Channel } from '#runtime/channel.ts'

/** It has heard all when nothing came for so long. */
const QUIET_MS = 300

parentPort?.once('message', ({ port, gate }: { port: MessagePort; gate: Int32Array }) => {
  let heard = 0
  let lost = 0
  const options = { inFlightMax: 1, batchMax: 128, deadlineMs: 1_000 }
  new Channel(port, options, {
    heard: () => heard++,
    lost: () => lost++,
  })
  parentPort?.postMessage('stalls')
  setImmediate(() => {
    Atomics.wait(gate, 0, 0)
    let before = -1
    setInterval(() => {
      if (heard === before) parentPort?.postMessage({ heard, lost })
      before = heard
    }, QUIET_MS)
  })
})
