/**
 * What every price provider looks like from our side, and what it is handed: time, and the way out.
 * A feed reports what it hears as observations and what goes wrong as troubles; whether a price is
 * believed is decided elsewhere.
 */

import type { Observation, PriceSource } from '#domain/asset-price.ts'

/** The part of a clock that feeds need. */
export type FeedClock = {
  nowMs(): number
  after(delayMs: number, action: () => void): () => void
}

/** The part of a WebSocket that feeds use. Closed, it is gone: no answer is waited for. */
export type FeedSocket = {
  addEventListener(type: 'open' | 'close' | 'error', listener: () => void): void
  addEventListener(type: 'message', listener: (event: { data: unknown }) => void): void
  send(text: string): void
  close(): void
}

/** The part of `fetch` that feeds use. */
type FeedFetch = (
  url: string,
  init: { readonly headers: Readonly<Record<string, string>>; readonly signal: AbortSignal },
) => Promise<FeedResponse>

export type FeedResponse = {
  readonly ok: boolean
  readonly status: number
  readonly body: AsyncIterable<Uint8Array> | null
}

/**
 * Characters of one report. No report of theirs is longer by far; and a dozen of them, which decide a market
 * and are kept with it, fit into a column of the database.
 */
export const REPORT_CHARS_MAX = 262_144

/** What went wrong with a provider, for logs and metrics. */
const FEED_TROUBLES = ['closed', 'silent', 'garbage', 'refused', 'away', 'unsure'] as const
export type FeedTrouble = (typeof FEED_TROUBLES)[number]

export type FeedPorts = {
  readonly clock: FeedClock
  readonly fetch: FeedFetch
  readonly openSocket: (url: string) => FeedSocket
  readonly heard: (observation: Observation) => void
  readonly troubled: (trouble: FeedTrouble, detail: string) => void
  readonly timing?: Partial<FeedTiming>
}

export type FeedTiming = {
  /** A connection that says nothing for so long is given up. */
  readonly silenceMs: number
  /** While nothing is pushed, the latest price is asked for so often. */
  readonly pollMs: number
  /** The pause before a broken connection is opened again; it doubles each time. */
  readonly backoffMs: number
  readonly backoffMsMax: number
  /** How long one request may take. */
  readonly requestMs: number
}

export const FEED_TIMING: FeedTiming = {
  silenceMs: 10_000,
  pollMs: 2_000,
  backoffMs: 500,
  backoffMsMax: 30_000,
  requestMs: 5_000,
}

export type Feed = {
  readonly source: PriceSource
  /** Where its prices come from, without a query. */
  readonly url: string
  start(): void
  stop(): void
  /** Whether a connection that pushes prices is open. */
  isOpen(): boolean
  /**
   * The first observation at or after an instant, and not later than `withinMs` after it, from the
   * provider's history; undefined when it has none. A provider that cannot be asked is a `Fault`.
   */
  priceAt(asset: string, atMs: number, withinMs: number): Promise<Observation | undefined>
}
