/**
 * A verify thread that a test can kill. It does the real work, but exits if the file at the path `deathNote` exists.
 */

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
