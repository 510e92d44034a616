/**
 * A thread of a pool: loads the pool's entry module, reports when the module is loaded, and calls the module's exports.
 */

import assert from 'node:assert/strict'
import { parentPort, workerData } from 'node:worker_threads'

export type PoolThreadData = { readonly poolEntry: string }
export type PoolTask = { readonly name: string; readonly task: unknown }

/** Message that a thread sends when its modules are loaded. */
export type PoolThreadMessage = 'loaded'

const { poolEntry } = workerData as PoolThreadData
const entry = (await import(poolEntry)) as Record<string, (task: unknown) => unknown>
parentPort?.postMessage('loaded' satisfies PoolThreadMessage)

export function run({ name, task }: PoolTask): unknown {
  const work = entry[name]
  assert(work !== undefined, `${poolEntry} has no ${name}`)
  return work(task)
}
