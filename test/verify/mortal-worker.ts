/** A verify thread that can be killed: it does the real work, and exits where a file asks it to. */

import { rmSync } from 'node:fs'
import { workerData } from 'node:worker_threads'
import type { PackedOrders } from '#verify/packed-orders.ts'
import { inspectPacked as inspect } from '../../workers/verify.ts'

/** Removing the file shows which thread got the task: one dies, and only once. */
function mustDie(): boolean {
  try {
    rmSync((workerData as { deathNote: string }).deathNote)
    return true
  } catch {
    return false
  }
}

export function inspectPacked(packed: PackedOrders) {
  if (mustDie()) process.exit(1)
  return inspect(packed)
}
