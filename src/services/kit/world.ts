/**
 * The world of a thread, which is its external dependencies: time, timers, randomness, and functions that open logs,
 * the database and chain clients. Each thread takes its world as a parameter, so that a simulator can supply another.
 * No other file of `services` reads a clock, draws a random number or sets a timer.
 */

import { randomBytes, randomInt } from 'node:crypto'
import type { makeChainClient } from '#chain/clients.ts'
import type { openLogReader } from '#log/log-reader.ts'
import type { openLogEnds } from '#log/server/log-ends.ts'
import { type Clock, monotonicMs, systemClock } from '#runtime/clock.ts'
import type { openDatabase } from '#store/open-database.ts'
import type { makeReads } from '#store/reads/reads.ts'
import { SAMPLE_MS, type WatchLoop } from './loop-lag.ts'
import type { TracerWorld } from './tracer.ts'

/** Maximum time of a request to the collector of traces. The next spans are sent after the request has ended. */
const POST_MS_MAX = 5_000

type Cancel = () => void

/** Timers that keep the thread alive, unlike the timers of `Clock`. */
type Timers = {
  after(delayMs: number, act: () => void): Cancel
  every(periodMs: number, act: () => void): Cancel
  /** Runs `act` after the handlers of the messages that have already arrived. */
  soon(act: () => void): void
}

export type World = {
  readonly clock: Clock
  /** Clock for measuring durations. It never goes back, and is the same for all threads of the process. */
  readonly monotonicMs: () => number
  readonly timers: Timers
  readonly random: {
    /** Returns a random integer from 0 up to, but not including, `limit`. */
    int(limit: number): number
    bytes(count: number): Buffer
  }
  /** Measures how late the thread's event loop is; absent if time is simulated. */
  readonly watchLoop?: WatchLoop
  /** External dependencies of a tracer; absent if time is simulated. */
  readonly tracing?: TracerWorld
  /** Ends the thread with an error that no caller can catch. */
  readonly crash: (error: unknown) => void
}

/** Functions that open external resources. A service lists the functions that it needs. */
export type Adapters = {
  readonly makeChainClient: typeof makeChainClient
  readonly makeReads: typeof makeReads
  readonly openDatabase: typeof openDatabase
  readonly openLogEnds: typeof openLogEnds
  readonly openLogReader: typeof openLogReader
}

/** Measures how late the event loop is, with a timer that does not keep the thread alive. */
export const watchLoop: WatchLoop = (observe) => {
  let lastMs = performance.now()
  const timer = setInterval(() => {
    const nowMs = performance.now()
    observe(Math.max(0, nowMs - lastMs - SAMPLE_MS))
    lastMs = nowMs
  }, SAMPLE_MS)
  timer.unref()
  return () => clearInterval(timer)
}

export const realWorld: World = {
  clock: systemClock,
  monotonicMs,
  timers: {
    after(delayMs, act) {
      const timer = setTimeout(act, delayMs)
      return () => clearTimeout(timer)
    },
    every(periodMs, act) {
      const timer = setInterval(act, periodMs)
      return () => clearInterval(timer)
    },
    soon: (act) => void setImmediate(act),
  },
  watchLoop,
  tracing: {
    wallMs: () => performance.timeOrigin + performance.now(),
    originMs: performance.timeOrigin,
    async post(url, body) {
      const headers = { 'content-type': 'application/json' }
      const signal = AbortSignal.timeout(POST_MS_MAX)
      const { status } = await fetch(url, { method: 'POST', headers, body, signal })
      return status
    },
  },
  random: { int: (limit) => randomInt(limit), bytes: (count) => randomBytes(count) },
  crash(error) {
    setImmediate(() => {
      throw error
    })
  },
}
