/** Preview of a share link to an event: the event's title, and the probabilities of its first markets. */

import { isEventSlug } from '#domain/event-info.ts'
import type { MarketId } from '#domain/ids.ts'
import { parseEventLink } from '#domain/share-link.ts'
import {
  type ChancePorts,
  chanceInMarket,
  type Preview,
  percentText,
} from '../markets/market-preview.ts'

type PreviewedEvent = {
  readonly slug: string
  readonly chainId: number
  readonly hash: string
  readonly title: string
  /** Unix seconds. */
  readonly end: number
}

type EventPreviewPorts = ChancePorts & {
  readonly eventsBySlug: (slug: string) => Promise<readonly PreviewedEvent[]>
  readonly marketsOfEvent: (
    event: PreviewedEvent,
    limit: number,
  ) => Promise<readonly { readonly id: MarketId; readonly question: string }[]>
  readonly nowMs: () => number
}

/** Maximum number of markets whose probability a preview shows. */
const MARKETS_SHOWN = 3

/**
 * Makes a function that returns the preview of an event, given the last part of a share link. If there is no such
 * event, the function returns undefined.
 */
export function makeEventPreview(ports: EventPreviewPorts) {
  return async function preview(name: string): Promise<Preview | undefined> {
    const { slug, hashStart } = parseEventLink(name) ?? {}
    if (slug === undefined || hashStart === undefined || !isEventSlug(slug)) return undefined
    const found = await ports.eventsBySlug(slug)
    // Events of several chains may have this slug. The start of the hash in the link selects one of them.
    const event = found.find(({ hash }) => hash.startsWith(hashStart))
    if (event === undefined) return undefined
    return { target: slug, title: event.title, description: await wordsOf(ports, event) }
  }
}

async function wordsOf(ports: EventPreviewPorts, event: PreviewedEvent): Promise<string> {
  if (event.end * 1_000 <= ports.nowMs()) return 'The event has ended.'
  const markets = await ports.marketsOfEvent(event, MARKETS_SHOWN)
  await ports.figures.prepare(markets.map(({ id }) => id))
  const lines = markets.map(({ id, question }) => {
    const chance = chanceInMarket(ports, id)
    return `${question} ${chance === undefined ? 'Not traded yet' : percentText(chance)}`
  })
  return lines.length === 0 ? 'The event has no markets yet.' : `${lines.join('; ')}.`
}
