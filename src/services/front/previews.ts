/** Makes previews of markets and events, for pages that link to them. */

import { makeEventPreview } from '#api/events/event-preview.ts'
import { type ChancePorts, makeMarketPreview } from '#api/markets/market-preview.ts'
import type { PagePreviews } from '#http/routes/page.ts'
import type { MarketBoard } from '#live/market-board.ts'
import { systemClock } from '#runtime/clock.ts'
import type { LateParts } from './link-ports.ts'
import type { FrontPools } from './pools.ts'

export function frontPreviews(
  board: MarketBoard,
  late: LateParts,
  { query }: FrontPools,
): PagePreviews {
  const chances: ChancePorts = {
    board,
    figures: {
      prepare: async (marketIds) => late.figures?.prepare(marketIds),
      of: (marketId) => late.figures?.of(marketId),
    },
  }
  return {
    market: makeMarketPreview({
      ...chances,
      oldestMarket: (idStart) => query('oldestMarketOf', { idStart }),
    }),
    event: makeEventPreview({
      ...chances,
      nowMs: systemClock.nowMs,
      eventsBySlug: (slug) => query('eventsBySlug', { slug }),
      marketsOfEvent: async ({ chainId, hash }, perEvent) => {
        const [members] = await query('marketsOfEvents', { chainId, hashes: [hash], perEvent })
        return members?.markets ?? []
      },
    }),
  }
}
