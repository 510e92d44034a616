/**
 * Provides the only source of time, so that a test can control the time.
 *
 * The machine's wall clock may jump, because of a wrong time server or a suspended machine. So it is compared with an
 * expected time, which follows the monotonic clock. The data for this comparison is in memory that all threads share.
 * While the wall clock is within a bound of the expected time, the exchange uses the wall clock. After a jump, it uses
 * the expected time until the guard (`clock-guard.ts`) has accepted the jump. So no thread acts on a clock that has
 * just jumped.
 */

type Cancel = () => void

export type Clock = {
  nowMs(): number
  /** Runs `action` once, after the delay. Timers of the system clock do not keep a process alive. */
  after(delayMs: number, action: () => void): Cancel
}

/** The two clocks of a machine. */
export type Machine = {
  wallMs(): number
  /** Returns a time that never goes back and is the same for all threads of the process. */
  monotonicMs(): number
}

/**
 * Clock data that all threads share. It contains the seconds by which the exchange's time is ahead of the machine's
 * clock, and the results of the clock guard, which one thread writes. The exchange's time is ahead only if the exchange
 * follows a local chain whose time was moved forward.
 */
export type ClockMemory = SharedArrayBuffer

const BYTES = 24
/** Returns views of the fields of the clock memory. */
export const clockViews = (memory: ClockMemory) => ({
  ahead: new Int32Array(memory, 0, 1),
  /** Maximum difference in milliseconds between the wall clock and its expected time; 0 if the guard is off. */
  bound: new Int32Array(memory, 4, 1),
  /** Expected time minus monotonic clock. The value is aligned and has one writing thread, so a read is atomic. */
  offset: new Float64Array(memory, 8, 1),
  /** 1 while a jump of the wall clock is not confirmed. */
  jumped: new Int32Array(memory, 16, 1),
})
type ClockViews = ReturnType<typeof clockViews>

export function makeClockMemory(): ClockMemory {
  return new SharedArrayBuffer(BYTES)
}

export const machine: Machine = { wallMs: () => Date.now(), monotonicMs }

/** Returns the wall clock minus its expected time, in milliseconds; 0 if the guard is off. */
export function clockJumpMs(memory: ClockMemory, { wallMs, monotonicMs }: Machine): number {
  const { bound, offset } = clockViews(memory)
  return Atomics.load(bound, 0) === 0 ? 0 : wallMs() - (offset[0]! + monotonicMs())
}

/**
 * Accepts the wall clock's current time as the expected time. From now on, the wall clock may differ from the expected
 * time by at most `boundMs`; 0 turns the guard off.
 */
export function anchorClock(
  memory: ClockMemory,
  { wallMs, monotonicMs }: Machine,
  boundMs: number,
): void {
  const { bound, offset } = clockViews(memory)
  offset[0] = wallMs() - monotonicMs()
  Atomics.store(bound, 0, boundMs)
}

/** Corrects the expected time by `ms`, to follow the drift of the machine's clock. */
export function adjustClock(memory: ClockMemory, ms: number): void {
  const { offset } = clockViews(memory)
  offset[0] = offset[0]! + ms
}

export function setJumped(memory: ClockMemory, isJumped: boolean): void {
  Atomics.store(clockViews(memory).jumped, 0, isJumped ? 1 : 0)
}

/** Returns the current time of a thread, from its clock memory. */
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

/** Makes this thread's system clock use the shared clock memory. */
export function followClock(memory: ClockMemory): void {
  followed = clockViews(memory)
}

/** Sets the number of seconds by which the time of all threads that use this memory is ahead of the machine's clock. */
export function moveClock(memory: ClockMemory, aheadSeconds: number): void {
  Atomics.store(clockViews(memory).ahead, 0, aheadSeconds)
}

/** Returns the number of milliseconds by which the exchange's time is ahead of the machine's clock. */
export function aheadMsOf(memory: ClockMemory): number {
  return 1_000 * Atomics.load(clockViews(memory).ahead, 0)
}

/** Returns whether the wall clock has jumped and the jump is not confirmed yet. */
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

/** Returns milliseconds of a clock that never goes back and is the same for all threads of the process. */
export function monotonicMs(): number {
  const [seconds, nanoseconds] = process.hrtime()
  return seconds * 1_000 + nanoseconds / 1e6
}
