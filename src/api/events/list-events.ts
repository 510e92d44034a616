/**
 * `GET /api/v1/events` and `GET /api/v1/events/{slug}`: events, which are groups of markets, with their
 * markets and figures.
 */

import Type, { type Static } from 'typebox'
import { checksumAddress } from '#domain/checksum-address.ts'
import { isEventSlug } from '#domain/event-info.ts'
import { eventPrices } from '#domain/event-prices.ts'
import {
  EVENT_MARKETS_LISTED,
  EVENT_MARKETS_MAX,
  EVENTS_LISTED,
  EVENTS_LISTED_MAX,
  EVENTS_SCANNED_MAX,
  SEARCH_CHARS_MAX,
} from '#domain/limits.ts'
import { CATEGORIES } from '#domain/market.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { FairTurns } from '#http/fair-turns.ts'
import { exactInteger, writeJson } from '#http/json.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { oneOf, safeInteger } from '#http/schemas.ts'
import type { MarketBoard } from '#live/market-board.ts'
import type { MarketEvents } from '#live/market-events.ts'
import type { FiguresBook, MarketFigures } from '#live/market-figures.ts'
import type { SeqWaiters } from '#live/seq-waiters.ts'
import { markStale } from '#live/stale-reply.ts'
import type { AnswerTo, QueryOf } from '#protocol/queries.ts'
import { Event, EventDetail } from '#protocol/shapes/events.ts'
import { nextCursor } from '#protocol/shapes/fields.ts'
import { MARKET_EXAMPLE, MARKETS_PER_READ, marketBody } from '../markets/list-markets.ts'
import { type ChainListedMarket, LIST_STATUSES, listedOf } from '../markets/market-pages.ts'
import { TRADER } from '../orders/order-examples.ts'

const SORTS = ['volume', 'newest', 'ending', 'category'] as const
type Sort = (typeof SORTS)[number]

/**
 * Position in a sorted list, directly after one event: the event's value by which the list is sorted, and the event's
 * key.
 */
type Place = { readonly value: string; readonly chainId: number; readonly hash: string }

type EventMembers = {
  readonly hash: string
  readonly count: number
  readonly markets: readonly ChainListedMarket[]
}

export type EventSources = {
  readonly board: MarketBoard
  readonly figures: FiguresBook
  readonly marketEvents: MarketEvents
  readonly waiters: Pick<SeqWaiters, 'untilFollowed'>
  readonly nowMs: () => number
  /**
   * Makes clients take turns: selects the IP address whose list is made next. If undefined, lists are made in the order
   * of the requests.
   */
  readonly turns?: Pick<FairTurns, 'next'> | undefined
  readonly listEvents: (filter: QueryOf<'listEvents'>) => Promise<AnswerTo<'listEvents'>>
  readonly eventsBySlug: (slug: string) => Promise<AnswerTo<'eventsBySlug'>>
  readonly marketsOfEvents: (
    asked: QueryOf<'marketsOfEvents'>,
  ) => Promise<AnswerTo<'marketsOfEvents'>>
}

const EVENT_EXAMPLE = {
  slug: 'rain-in-delphi',
  title: 'When does it rain in Delphi?',
  category: 'general',
  tags: ['weather'],
  image: '🌧️',
  description: 'One market per month.',
  end: 1_900_000_000,
  exclusive: true,
  chainId: 31_337,
  hash: `0x${'5a'.repeat(32)}`,
  signer: TRADER,
  createdAt: 1_800_000_000,
  status: 'open',
  totalVolume: 52_340_000,
  marketCount: 1,
  markets: [
    {
      ...MARKET_EXAMPLE,
      event: { slug: 'rain-in-delphi', title: 'When does it rain in Delphi?' },
    },
  ],
  prices: { yesSum: 420_000, unpriced: 0, bidSum: 410_000, askSum: 430_000, gap: -570_000 },
}

const chainIdParam = () =>
  Type.Optional(safeInteger({ min: 1, description: 'Lists only events of this chain' }))

const ListQuery = Type.Object(
  {
    sort: Type.Optional(
      oneOf(SORTS, {
        description:
          'Order of the list. `volume` (the default): highest total volume first; `newest`: newest first; `ending`: ' +
          'earliest end first; `category`: by category name',
      }),
    ),
    status: Type.Optional(
      oneOf([...LIST_STATUSES, 'all'], {
        description:
          '`open` (the default): events whose end is in the future; `ended`: events whose end has passed; `all`: both',
      }),
    ),
    category: Type.Optional(
      oneOf(CATEGORIES, { description: 'Lists only events of this category' }),
    ),
    tag: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 32,
        description: 'Lists only events with this tag',
      }),
    ),
    search: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: SEARCH_CHARS_MAX,
        description:
          'Lists only events with this text in their title, description, slug or tags; upper and lower case are the ' +
          'same',
      }),
    ),
    chain_id: chainIdParam(),
    limit: Type.Optional(
      safeInteger({
        min: 1,
        description: `Maximum number of events on a page; ${EVENTS_LISTED} by default, at most ${EVENTS_LISTED_MAX}`,
      }),
    ),
    cursor: Type.Optional(
      Type.String({
        description:
          'Value of `nextCursor` from the previous page, which must have the same `sort`',
      }),
    ),
  },
  { additionalProperties: false },
)

/**
 * Cost of finding events and their markets, in reads. Each request costs `LOOKUP_WEIGHT`. A list costs one more read
 * for every `EVENTS_PER_READ` events on its page.
 */
const LOOKUP_WEIGHT = 8
const EVENTS_PER_READ = 5
/**
 * Cost of a filter in reads, because the database also reads events that do not match: `SEARCH_WEIGHT` for a search,
 * which reads all texts; `SCAN_WEIGHT` for other filters.
 */
const SEARCH_WEIGHT = 60
const SCAN_WEIGHT = 24

export function listEvents(ports: EventSources): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/events',
    operationId: 'listEvents',
    auth: 'public',
    cost: 'read',
    tag: 'markets',
    summary: 'List events, which are groups of markets',
    description:
      `Each event in the list has its first ${EVENT_MARKETS_LISTED} markets, in the form of ` +
      `\`GET /api/v1/markets\`. The server checks at most ${EVENTS_SCANNED_MAX} events for a ` +
      'page. So a page of a filtered list can be short or empty although later pages have ' +
      'events: request further pages until `nextCursor` is null. Volumes change between two ' +
      'requests, so a list sorted by volume can repeat or omit an event. In the rate limit, a ' +
      `filter costs ${SCAN_WEIGHT} additional reads, and \`search\` costs ${SEARCH_WEIGHT} ` +
      'additional reads. `status` counts as a filter, also by default, unless it is `all`.',
    cacheControl: 'no-cache',
    revalidates: true,
    weigh({ limit, category, tag, search, chain_id, status }) {
      const events = pageOf(limit)
      const markets = Math.ceil((events * EVENT_MARKETS_LISTED) / MARKETS_PER_READ)
      const page = LOOKUP_WEIGHT + Math.ceil(events / EVENTS_PER_READ) + markets
      if (search !== undefined) return page + SEARCH_WEIGHT
      // Without a filter, the database reads only the events on the page. With a filter, it also reads events that do
      // not match.
      const isWhole = status === 'all' && (category ?? tag ?? chain_id) === undefined
      return page + (isWhole ? 0 : SCAN_WEIGHT)
    },
    query: ListQuery,
    responses: {
      200: Type.Object({
        events: Type.Array(Event),
        count: Type.Integer({ description: 'Number of events in this answer' }),
        nextCursor,
      }),
    },
    examples: {
      responses: {
        200: { 'one event': { value: { events: [EVENT_EXAMPLE], count: 1, nextCursor: null } } },
      },
    },
    async handle(request) {
      const { query } = request
      if (!ports.board.isWhole()) return reject('OVERLOADED')
      const sort = query.sort ?? 'volume'
      const after = placeOf(query.cursor, sort)
      if (isRejection(after)) return after
      const nowSec = Math.floor(ports.nowMs() / 1_000)
      const status = query.status ?? 'open'
      const page = await ports.listEvents({
        ...{ sort, nowSec, limit: pageOf(query.limit) },
        ...(after === undefined ? {} : { after }),
        ...(query.chain_id === undefined ? {} : { chainId: query.chain_id }),
        ...(query.category === undefined ? {} : { category: query.category }),
        ...(query.tag === undefined ? {} : { tag: query.tag }),
        ...(query.search === undefined ? {} : { search: query.search }),
        ...(status === 'all' ? {} : { status }),
      })
      const events = await withMarkets(ports, page.events, EVENT_MARKETS_LISTED, request)
      if (isRejection(events)) return events
      const next = page.next === undefined ? null : cursorAt(page.next, sort)
      const raw = writeJson({
        events: events.map(({ volume24h: _, ...event }) => event),
        ...{ count: events.length, nextCursor: next },
      })
      return markStale(ports.board, undefined, { status: 200, raw })
    },
  })
}

export function getEvent(ports: EventSources): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/events/{slug}',
    operationId: 'getEvent',
    auth: 'public',
    cost: 'read',
    weight: LOOKUP_WEIGHT + Math.ceil(EVENT_MARKETS_MAX / MARKETS_PER_READ),
    tag: 'markets',
    summary: 'Get an event with all of its markets',
    description: `An event has at most ${EVENT_MARKETS_MAX} markets.`,
    cacheControl: 'no-cache',
    revalidates: true,
    params: Type.Object(
      { slug: Type.String({ maxLength: 64, description: 'Slug of the event' }) },
      { additionalProperties: false },
    ),
    query: Type.Object({ chain_id: chainIdParam() }, { additionalProperties: false }),
    responses: { 200: EventDetail },
    errors: ['EVENT_NOT_FOUND'],
    examples: {
      responses: { 200: { 'an event': { value: { ...EVENT_EXAMPLE, volume24h: 1_075_000 } } } },
    },
    async handle(request) {
      const { slug } = request.path
      if (!ports.board.isWhole()) return reject('OVERLOADED')
      if (!isEventSlug(slug)) return reject('EVENT_NOT_FOUND', 'slug')
      const chainId = request.query.chain_id
      const found = await ports.eventsBySlug(slug)
      const event = found.find((each) => chainId === undefined || each.chainId === chainId)
      if (event === undefined) return reject('EVENT_NOT_FOUND', 'slug')
      const bodies = await withMarkets(ports, [event], EVENT_MARKETS_MAX, request)
      if (isRejection(bodies)) return bodies
      return markStale(ports.board, undefined, { status: 200, raw: writeJson(bodies[0]) })
    },
  })
}

/** Returns the maximum number of events on a page, given its `limit`. */
function pageOf(limit: number | undefined): number {
  return Math.min(limit ?? EVENTS_LISTED, EVENTS_LISTED_MAX)
}

/** Format of a cursor: sort order, sorted value, chain id and hash of the event, joined by dots. */
const PLACE = /^([a-z]+)\.([a-z]{1,24}|[0-9]{1,19})\.([1-9][0-9]{0,15})\.(0x[0-9a-f]{64})$/

function cursorAt({ value, chainId, hash }: Place, sort: Sort): string {
  return `${sort}.${value}.${chainId}.${hash}`
}

function placeOf(cursor: string | undefined, sort: Sort): Place | undefined | Rejection {
  if (cursor === undefined) return undefined
  const [, name, value = '', chainId, hash = ''] = PLACE.exec(cursor) ?? []
  const isRight = name === sort && /^[0-9]/.test(value) === (sort !== 'category')
  if (!isRight) {
    return reject(
      'INVALID_FIELD',
      'cursor',
      'cursor must be the value of nextCursor from an earlier page with the same sort',
    )
  }
  return { value, chainId: Number(chainId), hash }
}

/** Returns the events, each with its first markets and their current figures. */
async function withMarkets(
  ports: EventSources,
  events: AnswerTo<'listEvents'>['events'],
  perEvent: number,
  request: Parameters<SeqWaiters['untilFollowed']>[1],
): Promise<Static<typeof EventDetail>[] | Rejection> {
  const { board, figures, marketEvents, waiters } = ports
  const members = new Map<string, EventMembers>()
  for (const [chainId, some] of Map.groupBy(events, (event) => event.chainId)) {
    const hashes = some.map(({ hash }) => hash)
    for (const each of await ports.marketsOfEvents({ chainId, hashes, perEvent })) {
      members.set(`${chainId}/${each.hash}`, each)
    }
  }
  const ids = [...members.values()].flatMap(({ markets }) => markets.map(({ id }) => id))
  const late = await waiters.untilFollowed(ids, request)
  if (late !== undefined) return late
  await ports.turns?.next(request.ip ?? '')
  await Promise.all([figures.prepare(ids), marketEvents.prepare(ids)])
  const nowSec = Math.floor(ports.nowMs() / 1_000)
  return events.map((event) => {
    const { count = 0, markets = [] } = members.get(`${event.chainId}/${event.hash}`) ?? {}
    const bodies = markets.map((market) =>
      marketBody(listedOf(board, market, nowSec), figures, marketEvents.of(market.id)),
    )
    const known = markets.map(({ id }) => figures.of(id))
    return eventBody(event, bodies, { known, count, nowSec })
  })
}

/** Returns the response body of an event: its fields, the given markets, and totals of the markets' figures. */
function eventBody(
  { volume, ...event }: AnswerTo<'listEvents'>['events'][number],
  markets: ReturnType<typeof marketBody>[],
  {
    known,
    count,
    nowSec,
  }: {
    readonly known: readonly (MarketFigures | undefined)[]
    readonly count: number
    readonly nowSec: number
  },
): Static<typeof EventDetail> {
  const isAll = markets.length === count
  const sum = (of: 'totalVolume' | 'volume24h') =>
    known.some((each) => each === undefined)
      ? null
      : exactInteger(known.reduce((total, each) => total + (each?.[of] ?? 0n), 0n))
  return {
    ...event,
    tags: [...event.tags],
    signer: checksumAddress(event.signer),
    status: event.end > nowSec ? 'open' : 'ended',
    totalVolume: isAll ? sum('totalVolume') : exactInteger(volume),
    volume24h: sum('volume24h'),
    marketCount: count,
    markets,
    prices: event.exclusive && isAll ? eventPrices(markets) : null,
  }
}
