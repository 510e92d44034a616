/**
 * Events for the market list and for the view of one event. Current prices and volumes come from the list of markets,
 * which the stream updates.
 */

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

/** Reads the events for the cards. If the first read fails, repeats it every `RETRY_MS` until one succeeds. */
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

/** Reads one event. `chainId` distinguishes events with the same slug on several chains of the exchange. */
export function readEvent(slug: string, chainId: number | undefined): Promise<EventDetail> {
  return reader.event(slug, chainId === undefined ? {} : { chainId })
}

/** Returns the newest known state of a market. If the page does not follow the market, returns `market` itself. */
export function currentOf(market: Market): Market {
  return marketOf(market.id) ?? market
}
