/**
 * Keeps a connection to a provider open: closes it after a long silence, and opens a new one after a pause that doubles
 * with each failure. While the provider sends nothing, requests the latest price at intervals. Does not interpret
 * prices.
 */

import { backoff } from '#domain/backoff.ts'
import { FEED_TIMING, type FeedPorts, type FeedTiming } from './feed.ts'

/** Functions by which a provider's protocol reports the events of one connection. */
export type LineHooks = {
  /** Number of the connection; every new connection has a higher number. */
  readonly number: number
  /** Reports that a message has arrived, so the connection is alive. */
  alive(): void
  /** Reports the end of the connection. Later calls are ignored. */
  over(why: string): void
}

type LineOptions = {
  readonly ports: FeedPorts
  /** Opens a connection; returns a function that closes it. */
  readonly open: (hooks: LineHooks) => () => void
  /** Requests the latest prices once; never rejects. */
  readonly poll: () => Promise<void>
}

type Line = { start(): void; stop(): void; isOpen(): boolean }

/** Minimum duration of a healthy connection. If a healthy connection ends, the pauses start again from the shortest. */
const STEADY_MS = 30_000

export function timingOf(ports: FeedPorts): FeedTiming {
  return { ...FEED_TIMING, ...ports.timing }
}

export function makeLine({ ports, open, poll }: LineOptions): Line {
  const { clock, troubled } = ports
  const timing = timingOf(ports)
  let running = false
  let number = 0
  let failures = 0
  let openedAtMs = 0
  let lastMessageAtMs = 0
  let end: (() => void) | undefined
  let cancelWatch = (): void => undefined
  let cancelRetry = (): void => undefined
  let polling = false

  function connect(): void {
    const own = ++number
    openedAtMs = clock.nowMs()
    let over = false
    const hooks: LineHooks = {
      number: own,
      alive() {
        if (!over) lastMessageAtMs = clock.nowMs()
      },
      over(why) {
        if (over) return
        over = true
        if (own === number && running) lost(why)
      },
    }
    end = open(hooks)
  }

  function lost(why: string): void {
    end = undefined
    troubled('closed', why)
    const nowMs = clock.nowMs()
    failures = nowMs - openedAtMs >= STEADY_MS ? 0 : failures + 1
    const pauseMs = backoff(timing.backoffMs, timing.backoffMsMax, failures)
    cancelRetry = clock.after(pauseMs, () => {
      if (running) connect()
    })
  }

  /** Checks the connection, and polls while the provider pushes nothing. */
  function watch(): void {
    const nowMs = clock.nowMs()
    // If the wall clock was set back, these times may lie in the future, and a silent connection would be detected too
    // late. So reduce them to the current time.
    lastMessageAtMs = Math.min(lastMessageAtMs, nowMs)
    openedAtMs = Math.min(openedAtMs, nowMs)
    const quietMs = nowMs - Math.max(lastMessageAtMs, 0)
    if (end !== undefined && nowMs - Math.max(lastMessageAtMs, openedAtMs) > timing.silenceMs) {
      troubled('silent', `the provider sent nothing for ${timing.silenceMs} ms`)
      const hangUp = end
      // Clear `end` and raise `number` before closing, so that the connection's own report of its end is ignored.
      end = undefined
      number++
      hangUp()
      lost('it was silent')
    }
    if (quietMs > timing.pollMs && !polling) {
      polling = true
      void poll().finally(() => {
        polling = false
      })
    }
    cancelWatch = clock.after(timing.pollMs / 2, watch)
  }

  return {
    start() {
      if (running) return
      running = true
      lastMessageAtMs = clock.nowMs()
      connect()
      cancelWatch = clock.after(timing.pollMs / 2, watch)
    },
    stop() {
      running = false
      cancelWatch()
      cancelRetry()
      number++
      end?.()
      end = undefined
    },
    isOpen: () => end !== undefined && lastMessageAtMs >= openedAtMs,
  }
}
