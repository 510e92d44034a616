/**
 * Cost of each stream request, as a number of reads or writes, and weight of each subscription. A frame is charged
 * before it is parsed. The request in it is charged before it is handled. One read pays for about 40 µs of the front's
 * event loop. The costs assume that a snapshot is written anew, not sent from the cache.
 */

import { BOOK_LEVELS_SHOWN_MAX, TICKERS_PER_MESSAGE_MAX } from '#domain/limits.ts'
import type { LimitVerdict } from '#http/call.ts'
import type { Principal } from '#http/route.ts'
import { bookOf } from '#live/market-board.ts'
import type { Feed } from './feeds.ts'
import type { Request } from './frames.ts'

/** Number of bytes of a frame that one read pays for. */
const FRAME_BYTES_PER_READ = 2_048
const REPLAYED_BYTES_PER_READ = 4_096
const LEVELS_PER_READ = 250
const TRADES_PER_READ = 25
const TICKERS_PER_READ = 20

/**
 * Cost of a snapshot of orders, in reads: the front queries every market thread, and the answer has up to 500
 * orders.
 */
const ORDERS_READS = 10
/** Cost of a snapshot of funds, in reads: the front queries the accounts thread. */
const FUNDS_READS = 2

/** Number of tickers that count as one subscription. A subscription to all tickers counts as 20 subscriptions. */
const TICKERS_PER_SUBSCRIPTION = 5
const ALL_TICKERS_SUBSCRIPTIONS = 20

/** Charges a client `weight` times the cost of a read or a write, and returns the verdict of the rate limit. */
export type Draw = (
  what: { readonly cost: 'read' | 'write'; readonly weight: number },
  ip: string,
  principal: Principal | undefined,
) => Pick<LimitVerdict, 'allowed' | 'insists'>

type OpWeight = { readonly cost: 'read' | 'write'; readonly weight: number | 'snapshot' }

/** Cost of each kind of request, in addition to the cost of its frame. */
export const OP_WEIGHTS: Readonly<Record<Request['op'], OpWeight>> = {
  subscribe: { cost: 'read', weight: 'snapshot' },
  snapshot: { cost: 'read', weight: 'snapshot' },
  unsubscribe: { cost: 'read', weight: 0 },
  ping: { cost: 'read', weight: 0 },
  cancelOnDisconnect: { cost: 'read', weight: 0 },
  // An `auth` request costs as much as a write, because it looks up a key and verifies a signature.
  auth: { cost: 'write', weight: 1 },
  place: { cost: 'write', weight: 1 },
  cancel: { cost: 'write', weight: 1 },
  cancelAll: { cost: 'write', weight: 1 },
  deadman: { cost: 'write', weight: 1 },
}

/** Cost of listing the errors of a malformed frame, in addition to the cost of reading it. */
export const MISFIT_WEIGHT = { cost: 'read', weight: 5 } as const

/** Returns the cost of reading a frame of this size, in reads. */
export function frameWeight(bytes: number): number {
  return 1 + Math.floor(bytes / FRAME_BYTES_PER_READ)
}

export function replayWeight(texts: readonly string[]): number {
  let bytes = 0
  for (const text of texts) bytes += text.length
  return Math.ceil(bytes / REPLAYED_BYTES_PER_READ)
}

/** Returns the cost, in reads, of the tickers of this many markets. */
export function tickersWeight(markets: number): number {
  return Math.ceil(markets / TICKERS_PER_READ)
}

/** Returns the cost, in reads, of a snapshot of the feed. */
export function snapshotWeight(feed: Feed<unknown>): number {
  switch (feed.kind) {
    case 'book': {
      const levels = bookOf(feed.of.shown, feed.outcome, feed.implied).levelCount
      return Math.ceil(Math.min(levels, 2 * BOOK_LEVELS_SHOWN_MAX) / LEVELS_PER_READ)
    }
    case 'trades':
      return Math.ceil(feed.of.shown.trades.size / TRADES_PER_READ)
    case 'ticker':
      return tickersWeight(feed.marketIds?.length ?? TICKERS_PER_MESSAGE_MAX)
    case 'orders':
      return ORDERS_READS
    case 'funds':
      return FUNDS_READS
    default:
      return 1
  }
}

/** Returns the number of subscriptions that a feed counts as. */
export function subscriptionSize(feed: Feed<unknown>): number {
  if (feed.kind !== 'ticker') return 1
  if (feed.marketIds === undefined) return ALL_TICKERS_SUBSCRIPTIONS
  return Math.ceil(feed.marketIds.length / TICKERS_PER_SUBSCRIPTION)
}
