/**
 * Interface of every price feed (the client of one provider), and the clock and network access that a feed gets. A feed
 * reports prices as observations and failures as troubles; other modules decide whether a price is accepted.
 */

import type { Observation } from '#domain/asset-price.ts'
import type { PriceSource } from '#domain/price-providers.ts'

export type FeedClock = {
  nowMs(): number
  after(delayMs: number, action: () => void): () => void
}

/** The part of a WebSocket that feeds use. `close` does not wait for the server's answer. */
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
 * Maximum number of characters of one report. Providers send far fewer. About twelve reports decide a market and are
 * stored with it. Even if all of them have this size, they fit into the database column.
 */
export const REPORT_CHARS_MAX = 262_144

/** Kinds of failures of a provider, for logs and metrics. */
const FEED_TROUBLES = ['closed', 'silent', 'garbage', 'refused', 'away', 'unsure'] as const
export type FeedTrouble = (typeof FEED_TROUBLES)[number]

export type FeedPorts = {
  readonly clock: FeedClock
  readonly fetch: FeedFetch
  readonly openSocket: (url: string) => FeedSocket
  readonly observed: (observation: Observation) => void
  readonly troubled: (trouble: FeedTrouble, detail: string) => void
  readonly timing?: Partial<FeedTiming>
}

export type FeedTiming = {
  /** Maximum time without a message on a connection; after that, the connection is closed. */
  readonly silenceMs: number
  /** Interval of requests for the latest price while no connection delivers prices. */
  readonly pollMs: number
  /** Pause before a broken connection is opened again; it doubles with each failure. */
  readonly backoffMs: number
  readonly backoffMsMax: number
  /** Timeout of one request to the provider. */
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
  /** URL of the provider's prices, without a query. */
  readonly url: string
  start(): void
  stop(): void
  /** Returns whether a connection that pushes prices is open. */
  isOpen(): boolean
  /**
   * Returns the first observation at or after an instant, at most `withinMs` after it, from the provider's history;
   * undefined if there is none. Throws a `Fault` if the provider is unreachable.
   */
  priceAt(asset: string, atMs: number, withinMs: number): Promise<Observation | undefined>
}
