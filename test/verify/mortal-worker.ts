/** A verify thread that can be killed: it does the real work, and exits if a certain file exists. */

import { rmSync } from 'node:fs'
import { workerData } from 'node:worker_threads'
import type { PackedOrders } from '#verify/packed-orders.ts'
import { inspectPacked as inspect } from '../../workers/verify.ts'

/** Returns true for one thread only: the one that succeeds in removing the file. */
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
