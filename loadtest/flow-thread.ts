/** Records flows in a thread of its own, so that all it keeps burdens no collector but its own. */

import assert from 'node:assert/strict'
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
}

export type Flows = typeof flows

expose(flows, endpointOf(parentPort))
