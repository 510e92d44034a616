/** Finds the markets of an event, for subscriptions of the stream. */

import { EVENT_MARKETS_MAX } from '#domain/limits.ts'
import type { Query } from '#store/reads/queries.ts'
import type { StreamPorts } from '#stream/hub.ts'

export function eventMarketsBy(query: Query): StreamPorts['eventMarkets'] {
  return async ({ slug, chainId: wanted }) => {
    const found = await query('eventsBySlug', { slug })
    const event = found.find(({ chainId }) => wanted === undefined || chainId === wanted)
    if (event === undefined) return undefined
    const { chainId, hash } = event
    const asked = { chainId, hashes: [hash], perEvent: EVENT_MARKETS_MAX }
    const [members] = await query('marketsOfEvents', asked)
    return { slug, chainId, marketIds: members?.markets.map(({ id }) => id) ?? [] }
  }
}
