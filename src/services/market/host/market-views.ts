/**
 * Makes views of a thread’s markets (the state that fronts need) for the threads that follow this thread. Views are
 * sent in parts, because there may be very many markets.
 */

import type { MarketId } from '#domain/ids.ts'
import { MARKETS_PER_MESSAGE_MAX } from '#domain/limits.ts'
import type { MarketView } from '#protocol/market.ts'
import { viewOf } from '../market.ts'
import type { MarketState } from '../state.ts'

/**
 * Approximate maximum number of price levels in one message. A message ends with the market that raises its number of
 * levels above this maximum.
 */
const LEVELS_PER_MESSAGE = 20_000
type Hosts = {
  readonly markets: ReadonlyMap<
    MarketId,
    { readonly state: MarketState; readonly partition: number }
  >
}

/**
 * Returns views of the next markets after the market `after`, from all partitions or from `partitions`. If `after` is
 * no longer loaded, starts again from the first market.
 */
export function someViews(
  { markets }: Hosts,
  after?: MarketId,
  partitions?: readonly number[],
): { views: MarketView[]; more: boolean } {
  const views: MarketView[] = []
  let levels = 0
  let isBehind = after === undefined || !markets.has(after)
  for (const [marketId, hosted] of markets) {
    if (isBehind && partitions?.includes(hosted.partition) !== false) {
      if (views.length >= MARKETS_PER_MESSAGE_MAX || levels > LEVELS_PER_MESSAGE)
        return { views, more: true }
      const view = viewOf(hosted.state)
      for (const side of [...view.bids, ...view.asks]) levels += side.length
      views.push(view)
    }
    if (marketId === after) isBehind = true
  }
  return { views, more: false }
}

/** Yields views of all markets of a partition, part by part. */
export function* viewsOf(hosts: Hosts, partition: number): Generator<MarketView[]> {
  let after: MarketId | undefined
  for (let more = true; more; ) {
    const part = someViews(hosts, after, [partition])
    yield part.views
    more = part.more
    after = part.views.at(-1)?.market.id
  }
}
