/** The event loop of a thread, as channels and served actors use it. A simulator supplies its own implementation. */

import { monotonicMs } from './clock.ts'

export type Loop = {
  /** Runs `act` after the messages that have already arrived are handled. */
  soon(act: () => void): void
  /** Calls `act` every `periodMs`. Returns a function that stops the calls. */
  every(periodMs: number, act: () => void): () => void
  monotonicMs(): number
}

/** The event loop of Node. Its timers do not keep a thread alive. */
export const eventLoop: Loop = {
  soon: (act) => void setImmediate(act),
  every(periodMs, act) {
    const timer = setInterval(act, periodMs)
    timer.unref()
    return () => clearInterval(timer)
  },
  monotonicMs,
}
