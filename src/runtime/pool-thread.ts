/** A thread of a pool: loads the pool's entry, says so, and calls its exports. */

import assert from 'node:assert/strict'
import { parentPort, workerData } from 'node:worker_threads'

export type PoolThreadData = { readonly poolEntry: string }
export type PoolTask = { readonly name: string; readonly task: unknown }

/** What a thread says when its modules are loaded. */
export type PoolThreadSays = 'loaded'

const { poolEntry } = workerData as PoolThreadData
const entry = (await import(poolEntry)) as Record<string, (task: unknown) => unknown>
parentPort?.postMessage('loaded' satisfies PoolThreadSays)

export function run({ name, task }: PoolTask): unknown {
  const work = entry[name]
  assert(work !== undefined, `${poolEntry} has no ${name}`)
  return work(task)
}
