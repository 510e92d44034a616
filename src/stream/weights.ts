/**
 * What each request of the stream costs, in units of one read or one write, and how much of a limit a subscription
 * takes. A frame is paid for before it is parsed, and what it asks for before that is done. One read pays for about
 * 40 µs of the front's event loop: the figures are of snapshots as they are written, not as they are kept.
 */

import { BOOK_LEVELS_SHOWN_MAX, TICKERS_TOLD_MAX } from '#domain/limits.ts'
import type { Principal } from '#http/route.ts'
import type { Feed } from './feeds.ts'
import type { Request } from './frames.ts'

/** What one unit pays for. */
const FRAME_BYTES_PER_READ = 2_048
const REPLAYED_BYTES_PER_READ = 4_096
const LEVELS_PER_READ = 250
const TRADES_PER_READ = 25
const TICKERS_PER_READ = 20

/** Every market thread is asked, and the answer has up to 500 orders. */
const ORDERS_READS = 10
/** The account is asked. */
const FUNDS_READS = 2

/** Markets that a ticker may name per subscription that it counts as; one of all markets counts as 20. */
const TICKERS_PER_SUBSCRIPTION = 5
const ALL_TICKERS_SUBSCRIPTIONS = 20

/** What a write counts as in the budget of a turn. */
export const WRITE_UNITS = 5

/** Draws so many times what a read or a write costs; false when there is nothing left to draw from. */
export type Draw = (
  what: { readonly cost: 'read' | 'write'; readonly weight: number },
  ip: string,
  principal: Principal | undefined,
) => boolean

type OpWeight = { readonly cost: 'read' | 'write'; readonly weight: number | 'snapshot' }

/** What a request costs besides its frame. */
export const OP_WEIGHTS: Readonly<Record<Request['op'], OpWeight>> = {
  subscribe: { cost: 'read', weight: 'snapshot' },
  snapshot: { cost: 'read', weight: 'snapshot' },
  unsubscribe: { cost: 'read', weight: 0 },
  ping: { cost: 'read', weight: 0 },
  cancelOnDisconnect: { cost: 'read', weight: 0 },
  // A key may have to be looked up, and a signature is checked.
  auth: { cost: 'write', weight: 1 },
  place: { cost: 'write', weight: 1 },
  cancel: { cost: 'write', weight: 1 },
}

/** What it costs to find out why a frame does not fit, besides reading it. */
export const MISFIT_WEIGHT = { cost: 'read', weight: 5 } as const

/** What it costs to read a frame, whatever it says. */
export function frameWeight(bytes: number): number {
  return 1 + Math.floor(bytes / FRAME_BYTES_PER_READ)
}

export function replayWeight(texts: readonly string[]): number {
  let bytes = 0
  for (const text of texts) bytes += text.length
  return Math.ceil(bytes / REPLAYED_BYTES_PER_READ)
}

/** What a snapshot of the feed costs. */
export function snapshotWeight(feed: Feed<unknown>): number {
  switch (feed.kind) {
    case 'book': {
      const levels = feed.of.shown.books[feed.outcome].levelCount
      return Math.ceil(Math.min(levels, 2 * BOOK_LEVELS_SHOWN_MAX) / LEVELS_PER_READ)
    }
    case 'trades':
      return Math.ceil(feed.of.shown.trades.size / TRADES_PER_READ)
    case 'ticker':
      return Math.ceil((feed.marketIds?.length ?? TICKERS_TOLD_MAX) / TICKERS_PER_READ)
    case 'orders':
      return ORDERS_READS
    case 'funds':
      return FUNDS_READS
    default:
      return 1
  }
}

/** How many subscriptions a feed counts as. */
export function subscriptionSize(feed: Feed<unknown>): number {
  if (feed.kind !== 'ticker') return 1
  if (feed.marketIds === undefined) return ALL_TICKERS_SUBSCRIPTIONS
  return Math.ceil(feed.marketIds.length / TICKERS_PER_SUBSCRIPTION)
}
