/**
 * Time comes from here and nowhere else, so that a test can own it. The simulated clock runs what
 * is due in the order of its time, and within the same instant in the order it was asked for.
 */

export type Cancel = () => void

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

export type SimulatedClock = Clock & {
  /** Moves the time forward and runs everything that becomes due on the way. */
  advance(ms: number): void
  /** How many timers wait. */
  readonly pending: number
}

export function simulatedClock(startMs: number): SimulatedClock {
  let now = startMs
  let order = 0
  const timers = new Map<number, { dueMs: number; action: () => void }>()

  function nextDue(untilMs: number): number | undefined {
    let best: number | undefined
    let bestDue = Number.POSITIVE_INFINITY
    for (const [id, timer] of timers) {
      if (timer.dueMs <= untilMs && timer.dueMs < bestDue) {
        best = id
        bestDue = timer.dueMs
      }
    }
    return best
  }

  return {
    nowMs: () => now,
    after(delayMs, action) {
      const id = order++
      timers.set(id, { dueMs: now + Math.max(0, delayMs), action })
      return () => void timers.delete(id)
    },
    advance(ms) {
      const untilMs = now + ms
      for (let id = nextDue(untilMs); id !== undefined; id = nextDue(untilMs)) {
        const timer = timers.get(id)
        timers.delete(id)
        if (timer === undefined) continue
        now = Math.max(now, timer.dueMs)
        timer.action()
      }
      now = untilMs
    },
    get pending() {
      return timers.size
    },
  }
}
