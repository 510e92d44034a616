/** Records flows of commands in a separate thread, so that only its garbage collector handles the recorded objects. */

import assert from 'node:assert/strict'
import { closeSync, openSync, writeSync } from 'node:fs'
import { serialize } from 'node:v8'
import { parentPort } from 'node:worker_threads'
import { expose } from 'comlink'
import { endpointOf } from '#runtime/endpoint.ts'
import { type FlowCommand, FlowRecorder } from './market-flow.ts'

assert(parentPort !== null, 'this is the entry of a thread')
const recorder = new FlowRecorder(1, 1)

const flows = {
  markets: () => recorder.markets,
  resting: (count: number): FlowCommand[] => recorder.resting(count),
  flow: (count: number): FlowCommand[] => recorder.flow(count),
  /** Appends batches of a flow to a file in V8's format; returns the size of each in bytes. */
  record(path: string, size: number, batches: number): number[] {
    const file = openSync(path, 'a')
    try {
      return Array.from({ length: batches }, () => writeSync(file, serialize(recorder.flow(size))))
    } finally {
      closeSync(file)
    }
  },
}

export type Flows = typeof flows

expose(flows, endpointOf(parentPort))
