/**
 * Names of the events that group markets. The database has the event of a market before the market's thread opens the
 * market. So one read per market is enough, until a reorg or a lost message makes the front forget all events.
 */

import type { ChainEvent } from '#domain/chain-event.ts'
import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import { MARKET_EVENTS_KEPT_MAX, MARKETS_LISTED_MAX } from '#domain/limits.ts'
import { partsOf } from '#domain/parts-of.ts'

export type EventName = { readonly slug: string; readonly title: string }

export type MarketEvents = {
  /** Version of the loaded events; increases with each change of them. */
  readonly version: number
  /** Loads the events of those markets whose event is not known yet. */
  prepare(marketIds: readonly MarketId[]): Promise<void>
  isPrepared(marketId: MarketId): boolean
  /** Returns the event of a market; null if the market has no event, or if the event could not be loaded. */
  of(marketId: MarketId): EventName | null
  /** Applies chain events that the indexer has written. */
  followed(events: readonly ChainEvent[]): void
  /** Forgets all loaded events after a reorg or a lost message. */
  reset(): void
}

export function makeMarketEvents(
  stored: (
    marketIds: readonly MarketId[],
  ) => Promise<readonly (EventName & { readonly marketId: MarketId })[]>,
): MarketEvents {
  const known = new Map<MarketId, EventName | null>()
  /** Number of changes so far. If a change happens during a read, the read is repeated. */
  let changes = 0

  async function ask(marketIds: readonly MarketId[]): Promise<void> {
    for (;;) {
      const before = changes
      const found = new Map<MarketId, EventName>()
      for (const { marketId, slug, title } of await stored(marketIds)) {
        found.set(marketId, { slug, title })
      }
      if (before !== changes) continue
      for (const id of marketIds) keep(id, found.get(id) ?? null)
      return
    }
  }

  function keep(marketId: MarketId, event: EventName | null): void {
    known.set(marketId, event)
    if (known.size <= MARKET_EVENTS_KEPT_MAX) return
    const [oldest] = known.keys()
    known.delete(oldest!)
  }

  return {
    get version() {
      return changes
    },
    async prepare(marketIds) {
      const missing = marketIds.filter((id) => !known.has(id))
      for (const part of partsOf(missing, MARKETS_LISTED_MAX)) {
        try {
          await ask(part)
        } catch (error) {
          if (error instanceof Fault && error.retryable) return
          throw error
        }
      }
    },
    isPrepared: (marketId) => known.has(marketId),
    of: (marketId) => known.get(marketId) ?? null,
    followed(events) {
      for (const event of events) {
        if (event.type !== 'EventMarketCreated') continue
        changes++
        known.delete(event.marketId)
      }
    },
    reset() {
      changes++
      known.clear()
    },
  }
}
