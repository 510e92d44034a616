/** A front that hangs at its health check, as often as its test defines. */

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
        // It waits forever: its event loop does not turn any more.
        if (hangs !== undefined && Atomics.sub(hangs, 0, 1) > 0) {
          Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
        }
        return parts.health()
      },
    }
  },
})
