/**
 * Time comes from here and nowhere else, so that a test can own it.
 *
 * The machine's wall clock may jump: a wrong time server, a machine that was suspended. It is held
 * against the monotonic clock, in memory that all threads share: as long as the two agree within a bound, it
 * is the time; when it has jumped, time goes on from where it was, by the monotonic clock, until the guard
 * (`clock-guard.ts`) has confirmed the jump. So no thread ever acts on a clock that has just jumped.
 */

type Cancel = () => void

export type Clock = {
  nowMs(): number
  /** Runs `action` once, after the delay. The system's timers do not keep a process alive. */
  after(delayMs: number, action: () => void): Cancel
}

/** The two clocks of a machine. */
export type Machine = {
  wallMs(): number
  /** Never goes back, and is the same for all threads of the process. */
  monotonicMs(): number
}

/**
 * What all threads share. How many seconds the exchange is ahead of the machine: a local chain's time can
 * be moved, and the exchange moves with it; it is zero everywhere else. And what the guard of the wall clock
 * has found, which one thread writes.
 */
export type ClockMemory = SharedArrayBuffer

const BYTES = 24
/** The fields of that memory. */
export const clockViews = (memory: ClockMemory) => ({
  ahead: new Int32Array(memory, 0, 1),
  /** How far the clocks may be apart, in milliseconds; 0 while nothing is guarded. */
  bound: new Int32Array(memory, 4, 1),
  /** The wall clock without the monotonic one. Aligned, and written by one thread: it is read whole. */
  offset: new Float64Array(memory, 8, 1),
  /** 1 while the wall clock has jumped and is not confirmed. */
  jumped: new Int32Array(memory, 16, 1),
})
type ClockViews = ReturnType<typeof clockViews>

export function makeClockMemory(): ClockMemory {
  return new SharedArrayBuffer(BYTES)
}

export const machine: Machine = { wallMs: () => Date.now(), monotonicMs }

/** How far the wall clock is from where the monotonic one expects it; 0 while it is not guarded. */
export function clockJumpMs(memory: ClockMemory, { wallMs, monotonicMs }: Machine): number {
  const { bound, offset } = clockViews(memory)
  return Atomics.load(bound, 0) === 0 ? 0 : wallMs() - (offset[0]! + monotonicMs())
}

/** What the wall clock shows counts from now on, within that bound of the monotonic one; 0 guards nothing. */
export function anchorClock(
  memory: ClockMemory,
  { wallMs, monotonicMs }: Machine,
  boundMs: number,
): void {
  const { bound, offset } = clockViews(memory)
  offset[0] = wallMs() - monotonicMs()
  Atomics.store(bound, 0, boundMs)
}

/** Follows a clock that drifts: the expectation moves by so much. */
export function adjustClock(memory: ClockMemory, ms: number): void {
  const { offset } = clockViews(memory)
  offset[0] = offset[0]! + ms
}

export function setJumped(memory: ClockMemory, isJumped: boolean): void {
  Atomics.store(clockViews(memory).jumped, 0, isJumped ? 1 : 0)
}

/** The time that a thread reads from the memory that it follows. */
export function readClock(
  { ahead, bound, offset }: ClockViews,
  { wallMs, monotonicMs }: Machine,
): number {
  const wall = wallMs()
  const aheadMs = 1_000 * Atomics.load(ahead, 0)
  const boundMs = Atomics.load(bound, 0)
  if (boundMs === 0) return wall + aheadMs
  const expected = offset[0]! + monotonicMs()
  return (Math.abs(wall - expected) <= boundMs ? wall : Math.floor(expected)) + aheadMs
}

let followed = clockViews(makeClockMemory())

/** From now on this thread's system clock is what that memory says. */
export function followClock(memory: ClockMemory): void {
  followed = clockViews(memory)
}

/** Moves the clock of every thread that follows this memory. */
export function moveClock(memory: ClockMemory, aheadSeconds: number): void {
  Atomics.store(clockViews(memory).ahead, 0, aheadSeconds)
}

/** How far the exchange is ahead of the machine. */
export function aheadMsOf(memory: ClockMemory): number {
  return 1_000 * Atomics.load(clockViews(memory).ahead, 0)
}

/** Whether the wall clock has jumped, and time goes on without it. */
export function hasClockJumped(): boolean {
  return Atomics.load(followed.jumped, 0) === 1
}

export const systemClock: Clock = {
  nowMs: () => readClock(followed, machine),
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
