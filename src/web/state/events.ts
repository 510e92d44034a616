/** Events for the list and for the view of one event. Prices and volumes follow the stream through the list of markets. */

import { signal } from '@preact/signals'
import type { Event, EventDetail } from '#protocol/shapes/events.ts'
import type { Market } from '#protocol/shapes/markets.ts'
import { reader } from './exchange.ts'
import { marketOf } from './markets.ts'

/** Number of cards above the list. */
const EVENTS_SHOWN = 6
const RETRY_MS = 3_000

/** Most traded open events; undefined until they are read. */
export const events = signal<readonly Event[] | undefined>(undefined)

/** Reads the events of the cards; failures are repeated. */
export async function readEvents(): Promise<void> {
  try {
    const found: Event[] = []
    for await (const event of reader.eachEvent({ pageSize: EVENTS_SHOWN })) {
      found.push(event)
      if (found.length === EVENTS_SHOWN) break
    }
    events.value = found
  } catch {
    if (events.value === undefined) setTimeout(() => void readEvents(), RETRY_MS)
  }
}

/** Reads one event. `chainId` is needed because another chain of the exchange may have an event with the same slug. */
export function readEvent(slug: string, chainId: number | undefined): Promise<EventDetail> {
  return reader.event(slug, chainId === undefined ? {} : { chainId })
}

/** Returns the market as the stream has it, if the page follows it. */
export function currentOf(market: Market): Market {
  return marketOf(market.id) ?? market
}
