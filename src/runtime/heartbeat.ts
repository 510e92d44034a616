/**
 * A worker's heartbeat: a counter in memory that the worker shares with the supervisor. The worker increments the
 * counter while its event loop is not blocked, and at each step of work that blocks the loop. So the supervisor can
 * distinguish a busy worker from a stuck one, even if neither answers.
 */

/** Interval of beats while the event loop is not blocked. */
const BEAT_EVERY_MS = 100

export type Heartbeat = Int32Array<SharedArrayBuffer>

export function makeHeartbeat(): Heartbeat {
  return new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
}

/** This worker's heartbeat; no thread reads it if there is no supervisor. */
let own = makeHeartbeat()

/** Makes the worker write its beats into the supervisor's memory from now on, while its event loop is not blocked. */
export function beatInto(heartbeat: Heartbeat): void {
  own = heartbeat
  setInterval(beat, BEAT_EVERY_MS).unref()
}

/** Counts a beat. Call it between the steps of long work. */
export function beat(): void {
  Atomics.add(own, 0, 1)
}

/** Returns the number of beats so far, modulo the counter's size. */
export function beatsOf(heartbeat: Heartbeat): number {
  return Atomics.load(heartbeat, 0)
}
