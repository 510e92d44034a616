/**
 * A front thread whose health check blocks forever if the counter `hangs` is above 0. Each health check decrements the
 * counter, so the counter is the number of times that the front hangs.
 */

import { runThreads, type Thread } from '#runtime/thread.ts'
import { frontThread } from '#services/front/thread.ts'

type HangingData = Parameters<typeof frontThread>[0] & { readonly hangs?: Int32Array }

runThreads({
  front(data: HangingData): Thread {
    const { hangs } = data
    const parts = frontThread(data)
    return {
      ...parts,
      health() {
        // The thread blocks here forever, so its event loop stops.
        if (hangs !== undefined && Atomics.sub(hangs, 0, 1) > 0) {
          Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
        }
        return parts.health()
      },
    }
  },
})
