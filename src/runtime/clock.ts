/** Time comes from here and nowhere else, so that a test can own it. */

type Cancel = () => void

export type Clock = {
  nowMs(): number
  /** Runs `action` once, after the delay. The system's timers do not keep a process alive. */
  after(delayMs: number, action: () => void): Cancel
}

/**
 * How many seconds the exchange is ahead of the machine, in memory that all threads share: a local
 * chain's time can be moved, and the exchange moves with it. It is zero everywhere else.
 */
export type ClockMemory = SharedArrayBuffer

let ahead = new Int32Array(makeClockMemory())

export function makeClockMemory(): ClockMemory {
  return new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)
}

/** From now on this thread's system clock is as far ahead as that memory says. */
export function followClock(memory: ClockMemory): void {
  ahead = new Int32Array(memory)
}

/** Moves the clock of every thread that follows this memory. */
export function moveClock(memory: ClockMemory, aheadSeconds: number): void {
  Atomics.store(new Int32Array(memory), 0, aheadSeconds)
}

export const systemClock: Clock = {
  nowMs: () => Date.now() + 1_000 * Atomics.load(ahead, 0),
  after(delayMs, action) {
    const timer = setTimeout(action, delayMs)
    timer.unref()
    return () => clearTimeout(timer)
  },
}

/** Milliseconds of a clock that never goes back and is the same for all threads of the process. */
export function monotonicMs(): number {
  const [seconds, nanoseconds] = process.hrtime()
  return seconds * 1_000 + nanoseconds / 1e6
}
