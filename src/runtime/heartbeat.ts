/**
 * A worker's sign of life: a counter in memory that it shares with the supervisor. It counts while the
 * worker's event loop turns, and at each step of work that keeps the loop from turning, so that the
 * supervisor can tell a worker that is busy from one that is stuck without an answer from it.
 */

/** How often a worker whose event loop turns says so. */
const BEAT_EVERY_MS = 100

export type Heartbeat = Int32Array<SharedArrayBuffer>

export function makeHeartbeat(): Heartbeat {
  return new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
}

/** This worker's own; a worker that no supervisor follows counts for itself. */
let own = makeHeartbeat()

/** From now on it beats where the supervisor looks, as often as the event loop turns. */
export function beatInto(heartbeat: Heartbeat): void {
  own = heartbeat
  setInterval(beat, BEAT_EVERY_MS).unref()
}

/** To be called between the steps of long work. */
export function beat(): void {
  Atomics.add(own, 0, 1)
}

/** For the supervisor: how often it has beaten, up to where the counter begins again. */
export function beatsOf(heartbeat: Heartbeat): number {
  return Atomics.load(heartbeat, 0)
}
