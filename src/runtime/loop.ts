/** The event loop of a thread, as channels and served actors use it. A simulator supplies another. */

import { monotonicMs } from './clock.ts'

export type Loop = {
  /** Runs `act` after the messages that have arrived. */
  soon(act: () => void): void
  /** Returns the function that ends the calls. */
  every(periodMs: number, act: () => void): () => void
  monotonicMs(): number
}

/** Its timers keep no thread alive. */
export const eventLoop: Loop = {
  soon: (act) => void setImmediate(act),
  every(periodMs, act) {
    const timer = setInterval(act, periodMs)
    timer.unref()
    return () => clearInterval(timer)
  },
  monotonicMs,
}
