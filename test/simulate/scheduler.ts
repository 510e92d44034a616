/**
 * Virtual time. Everything that happens in a simulation is a callback (act) in one queue. Acts run in the order of
 * their due times, and those with the same time in the order in which they were queued. After each act, all pending
 * promise callbacks run, so the order of a run depends only on the seed.
 */

import { createHash } from 'node:crypto'
import type { Loop } from '#runtime/loop.ts'

/** One run of a process, from its start to its end. Acts of a dead process never run. */
export type Life = {
  readonly name: string
  alive: boolean
  /** Acts wait until then. */
  pausedUntilUs: number
  /** Acts that became due while the process was paused, in order. */
  readonly waiting: { readonly act: () => void }[]
}

export function newLife(name: string): Life {
  return { name, alive: true, pausedUntilUs: 0, waiting: [] }
}

/** An invariant of the exchange is broken. */
export class Violation extends Error {
  /** Name of the broken invariant. */
  readonly invariant: string

  constructor(invariant: string, detail: string) {
    super(`${invariant}: ${detail}`)
    this.name = 'Violation'
    this.invariant = invariant
  }
}

type Act = {
  readonly dueUs: number
  readonly place: number
  life: Life | undefined
  act: () => void
}

/** Maximum number of lines of the trace in a result. */
const TRACE_MAX = 400

export class Scheduler {
  nowUs: number
  acts = 0
  #place = 0
  readonly #queue: Act[] = []
  #lines: string[] = []
  readonly #hash = createHash('sha256')
  #broken: unknown
  readonly #startUs: number
  /** Receives each line of the trace. */
  readonly #print: ((line: string) => void) | undefined

  constructor(startMs: number, print?: (line: string) => void) {
    this.#startUs = startMs * 1_000
    this.nowUs = this.#startUs
    this.#print = print
  }

  get nowMs(): number {
    return Math.floor(this.nowUs / 1_000)
  }

  /** Seconds since the start. */
  get seconds(): number {
    return (this.nowUs - this.#startUs) / 1e6
  }

  trace(line: string): void {
    const text = `${this.seconds.toFixed(6)} ${line}`
    this.#hash.update(text)
    this.#print?.(text)
    this.#lines.push(text)
    if (this.#lines.length > 2 * TRACE_MAX) this.#lines = this.#lines.slice(-TRACE_MAX)
  }

  /** Last lines of the trace, and the hash of all lines. */
  get told(): { readonly lines: readonly string[]; readonly hash: string } {
    return { lines: this.#lines.slice(-TRACE_MAX), hash: this.#hash.copy().digest('hex') }
  }

  after(delayUs: number, act: () => void, life?: Life): () => void {
    const planned: Act = {
      dueUs: this.nowUs + Math.max(0, Math.round(delayUs)),
      place: this.#place++,
      life,
      act,
    }
    this.#push(planned)
    return () => {
      planned.act = () => {}
    }
  }

  every(periodUs: number, act: () => void, life?: Life): () => void {
    let cancel = () => {}
    const again = () => {
      cancel = this.after(periodUs, again, life)
      act()
    }
    cancel = this.after(periodUs, again, life)
    return () => cancel()
  }

  /** The event loop of a process. */
  loop(life?: Life): Loop {
    return {
      soon: (act) => void this.after(1, act, life),
      every: (periodMs, act) => this.every(periodMs * 1_000, act, life),
      monotonicMs: () => this.nowUs / 1_000,
    }
  }

  /** Ends the run with this error. */
  fail(error: unknown): void {
    this.#broken ??= error
  }

  /** Runs every act that is due at or before `untilUs`. Throws the first error. */
  async run(untilUs: number): Promise<void> {
    for (;;) {
      if (this.#broken !== undefined) throw this.#broken
      const next = this.#queue[0]
      if (next === undefined || next.dueUs > untilUs) break
      this.#pop()
      this.nowUs = next.dueUs
      const { life } = next
      if (life?.alive === false) continue
      if (life !== undefined && (life.pausedUntilUs > this.nowUs || life.waiting.length > 0)) {
        life.waiting.push(next)
        if (life.waiting.length === 1) this.#resumeAfter(life)
        continue
      }
      this.acts++
      next.act()
      // A turn of the real event loop runs every pending promise callback.
      await new Promise<void>((resolve) => void setImmediate(resolve))
    }
    this.nowUs = untilUs
  }

  #resumeAfter(life: Life): void {
    this.after(life.pausedUntilUs - this.nowUs, () => this.#resume(life))
  }

  /**
   * Runs the acts that waited during a pause, one after the other. If another pause begins, the remaining acts keep
   * their order.
   */
  #resume(life: Life): void {
    if (!life.alive) return
    const isPaused = life.pausedUntilUs > this.nowUs
    const next = isPaused ? undefined : life.waiting.shift()
    if (life.waiting.length > 0) this.#resumeAfter(life)
    next?.act()
  }

  #push(act: Act): void {
    const queue = this.#queue
    let at = queue.push(act) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!isBefore(act, queue[parent]!)) break
      queue[at] = queue[parent]!
      at = parent
    }
    queue[at] = act
  }

  #pop(): void {
    const queue = this.#queue
    const last = queue.pop()!
    if (queue.length === 0) return
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= queue.length) break
      if (child + 1 < queue.length && isBefore(queue[child + 1]!, queue[child]!)) child++
      if (!isBefore(queue[child]!, last)) break
      queue[at] = queue[child]!
      at = child
    }
    queue[at] = last
  }
}

function isBefore(a: Act, b: Act): boolean {
  return a.dueUs < b.dueUs || (a.dueUs === b.dueUs && a.place < b.place)
}
