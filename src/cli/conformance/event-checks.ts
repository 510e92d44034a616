/** Checks of events. The checks are skipped if the server has no events. */

import type { Check } from './check.ts'
import { demand, demandEqual, Skipped } from './mismatch.ts'
import { demandRefusal } from './service-checks.ts'
import { BOOL, BYTES32, CATEGORY, demandShape, INTEGER, LIST, NATURAL, TEXT } from './shape.ts'
import type { World } from './world.ts'

const EVENT = {
  ...{ slug: TEXT, title: TEXT, category: CATEGORY, tags: LIST, image: TEXT, description: TEXT },
  ...{ end: NATURAL, exclusive: BOOL, chainId: NATURAL, hash: BYTES32, createdAt: NATURAL },
  ...{ status: TEXT, marketCount: NATURAL, markets: LIST },
}
const PAGES_MAX = 200

type Listed = {
  readonly slug: string
  readonly chainId: number
  readonly exclusive: boolean
  readonly marketCount: number
  readonly markets: readonly { readonly id: string; readonly event?: { slug: string } | null }[]
  readonly prices: Record<string, number | null> | null
}
type Page = {
  readonly events: Listed[]
  readonly count: number
  readonly nextCursor: string | null
}

async function page({ ask }: World, query: string): Promise<Page> {
  const { status, body, text } = await ask(`/events?${query}`)
  if (status === 404) throw new Skipped('the server has no endpoint GET /events')
  demand(status === 200 && body !== undefined, `GET /events?${query} to answer 200 with JSON`, text)
  return body as Page
}

/** Returns an event of the server; skips the check if the server has no events. */
async function anEvent(world: World): Promise<Listed> {
  const { events } = await page(world, 'status=all')
  const [event] = events
  if (event === undefined) throw new Skipped('the server lists no event')
  return event
}

async function one({ ask }: World, { slug, chainId }: Listed): Promise<Listed> {
  const { status, body, text } = await ask(`/events/${slug}?chain_id=${chainId}`)
  demand(status === 200 && body !== undefined, `GET /events/${slug} to answer 200 with JSON`, text)
  return body as Listed
}

export const EVENT_CHECKS: readonly Check[] = [
  {
    id: 'events.list',
    says: 'GET /events lists events with all their fields, and their count',
    async run(world) {
      const body = await page(world, 'status=all')
      demandShape('the list', body, { events: [EVENT], count: NATURAL })
      demandEqual('count', body.count, body.events.length)
    },
  },
  {
    id: 'events.pages',
    says: 'the pages of GET /events contain no event twice, in any sort order',
    async run(world) {
      for (const sort of ['newest', 'ending', 'category']) {
        const seen: string[] = []
        let cursor: string | null = ''
        for (let pages = 0; cursor !== null && pages < PAGES_MAX; pages++) {
          const from: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`
          const { events, nextCursor }: Page = await page(
            world,
            `status=all&sort=${sort}&limit=2${from}`,
          )
          demand(events.length <= 2, 'at most 2 events', events.length)
          seen.push(...events.map(({ slug, chainId }) => `${chainId}/${slug}`))
          cursor = nextCursor
        }
        demandEqual(
          `number of different events with sort=${sort} to be`,
          new Set(seen).size,
          seen.length,
        )
      }
    },
  },
  {
    id: 'events.one',
    says: 'GET /events/{slug} lists all markets of the event, and each market has the slug of the event',
    async run(world) {
      const event = await one(world, await anEvent(world))
      demandShape('the event', event, EVENT)
      demandEqual('marketCount', event.marketCount, event.markets.length)
      for (const { id } of event.markets.slice(0, 3)) {
        const { body } = await world.ask(`/markets/${id}`)
        const named = (body as { event?: { slug: string } | null } | undefined)?.event
        demandEqual(`the event of market ${id}`, named?.slug, event.slug)
      }
    },
  },
  {
    id: 'events.prices',
    says: 'the field prices has yesSum and gap in an exclusive event, and is null in any other event',
    async run(world) {
      const event = await one(world, await anEvent(world))
      if (event.exclusive) {
        demandShape('prices', event.prices, { yesSum: NATURAL, unpriced: NATURAL, gap: INTEGER })
      } else demandEqual('prices', event.prices, null)
    },
  },
  {
    id: 'events.unknown',
    says: 'a request for an unknown event gets 404 EVENT_NOT_FOUND, and a wrong cursor is rejected',
    async run(world) {
      await anEvent(world)
      const unknown = { status: 404, code: 'EVENT_NOT_FOUND' }
      demandRefusal(await world.ask('/events/there-is-no-such-event'), unknown)
      demandRefusal(await world.ask('/events?cursor=x'), { status: 400, field: 'cursor' })
    },
  },
]
