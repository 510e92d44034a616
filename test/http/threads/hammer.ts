/** A thread that uses a shared table as fast as possible, and reports its results. */

import { parentPort, workerData } from 'node:worker_threads'
import { makeLimiter, steadyMs } from '#http/limits.ts'
import { makeNonceLedger } from '#http/nonce-ledger.ts'
import { SharedTable, type SharedTableMemory } from '#http/shared-table.ts'
import { ARRIVAL, LIMITS } from '../limit-fixture.ts'

export type HammerData = {
  readonly memory: SharedTableMemory
  /** All threads start when the gate's first value is 1. */
  readonly gate: SharedArrayBuffer
  readonly task: 'count' | 'nonces' | 'draw'
  readonly rounds: number
}

export type HammerResult = {
  readonly allowed: number
  readonly startedAtMs: number
  readonly endedAtMs: number
}

const { memory, gate, task, rounds } = workerData as HammerData

const tasks: Record<HammerData['task'], () => number> = {
  /** Increments four counters in turn, which are all in one set and share its lock. */
  count() {
    const table = new SharedTable(memory)
    for (let round = 0; round < rounds; round++) {
      table.update(
        `counter ${round % 4}`,
        (value) => value + 1,
        () => false,
      )
    }
    return rounds
  },
  nonces() {
    const ledger = makeNonceLedger(memory)
    let first = 0
    for (let round = 0; round < rounds; round++) {
      if (ledger.use('key', String(round), 1_000, 1) === 'first') first++
    }
    return first
  },
  draw() {
    const { limit } = makeLimiter(LIMITS, memory)
    let allowed = 0
    for (let round = 0; round < rounds; round++) {
      if (limit(ARRIVAL, undefined).allowed) allowed++
    }
    return allowed
  },
}

parentPort?.postMessage('ready')
Atomics.wait(new Int32Array(gate), 0, 0)
const startedAtMs = steadyMs()
const allowed = tasks[task]()
parentPort?.postMessage({ allowed, startedAtMs, endedAtMs: steadyMs() } satisfies HammerResult)
