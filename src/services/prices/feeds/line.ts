/**
 * Keeps a connection to a provider open: opens it, gives it up when it says nothing for too long,
 * and opens it again after a pause that doubles. While nothing is pushed, it asks for the latest
 * price now and then instead. It knows nothing of prices.
 */

import { backoff } from '#domain/backoff.ts'
import { FEED_TIMING, type FeedPorts, type FeedTiming } from './feed.ts'

/** What a protocol tells the line about one connection. */
export type LineHooks = {
  /** Which connection it is; every new one has a higher number. */
  readonly number: number
  /** Something was said: the connection lives. */
  alive(): void
  /** It is over. Later calls say nothing. */
  over(why: string): void
}

type LineOptions = {
  readonly ports: FeedPorts
  /** Opens a connection; what it returns ends it. */
  readonly open: (hooks: LineHooks) => () => void
  /** Asks for the latest prices once; resolves always. */
  readonly poll: () => Promise<void>
}

type Line = { start(): void; stop(): void; isOpen(): boolean }

/** A connection that lived so long had no trouble of its own; the pauses begin anew. */
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
  let heardAtMs = 0
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
        if (!over) heardAtMs = clock.nowMs()
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

  /** Looks after the connection, and asks by itself while nothing comes. */
  function watch(): void {
    const nowMs = clock.nowMs()
    const quietMs = nowMs - Math.max(heardAtMs, 0)
    if (end !== undefined && nowMs - Math.max(heardAtMs, openedAtMs) > timing.silenceMs) {
      troubled('silent', `nothing for ${timing.silenceMs} ms`)
      const hangUp = end
      // Its end is told as that of any connection, when it ends.
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
      heardAtMs = clock.nowMs()
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
    isOpen: () => end !== undefined && heardAtMs >= openedAtMs,
  }
}
