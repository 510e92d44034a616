/**
 * `GET /api/v1/markets` and `GET /api/v1/markets/{marketId}`: markets of the exchange, with their current best prices.
 * Ended markets that were unloaded come from the database.
 */

import { setImmediate as nextTurn } from 'node:timers/promises'
import Type, { type Static } from 'typebox'
import { checksumAddress } from '#domain/checksum-address.ts'
import type { MarketId } from '#domain/ids.ts'
import { MARKETS_LISTED_MAX, SEARCH_CHARS_MAX } from '#domain/limits.ts'
import { CATEGORIES } from '#domain/market.ts'
import { YES } from '#domain/order.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import { entityTag } from '#http/entity-tag.ts'
import type { FairTurns } from '#http/fair-turns.ts'
import type { JoinedAnswers, List } from '#http/joined-answers.ts'
import { writeJson } from '#http/json.ts'
import type { KeptAnswers } from '#http/kept-answers.ts'
import type { ReadCache } from '#http/read-cache.ts'
import type { RequestContext } from '#http/request-context.ts'
import { type AnswerRoute, type RawReply, route } from '#http/route.ts'
import { flag, oneOf, safeInteger } from '#http/schemas.ts'
import type { MarketBoard } from '#live/market-board.ts'
import type { EventName, MarketEvents } from '#live/market-events.ts'
import type { FiguresBook, MarketFigures } from '#live/market-figures.ts'
import type { FoundMarket, MarketFinder } from '#live/market-finder.ts'
import type { SeqWaiters } from '#live/seq-waiters.ts'
import { markStale } from '#live/stale-reply.ts'
import { TICKER_EXAMPLE, tickerBody } from '#live/ticker.ts'
import { Market } from '#protocol/shapes/markets.ts'
import { MARKET_ID, TRADER } from '../orders/order-examples.ts'
import { marketIdParam, minSeqParam } from '../orders/order-shapes.ts'
import type { KeptPages, MarketPage } from './kept-pages.ts'
import {
  cursorBehind,
  LIST_STATUSES,
  type ListedMarket,
  type MarketSources,
  marketsFrom,
  placeOf,
} from './market-pages.ts'

/** Number of list entries written in one turn of the event loop: about a millisecond of work. */
const ENTRIES_PER_TURN = 50

export function marketBody(
  found: FoundMarket & Pick<ListedMarket, 'winningOutcome'>,
  figures: FiguresBook,
  event: EventName | null,
): Static<typeof Market> {
  const { market, closed, shown, winningOutcome = null } = found
  return {
    id: market.id,
    question: market.question,
    description: market.description,
    category: market.category,
    contractAddress: checksumAddress(market.contractAddress),
    maker: checksumAddress(market.maker),
    expiration: market.expiration,
    chainId: market.chainId,
    resolved: closed === 'resolved',
    bestAskPrice: shown?.books[YES].bestAsk ?? 0,
    createdAt: market.createdAt,
    ...(winningOutcome === null ? {} : { winningOutcome }),
    event,
    ...tickerBody({ ...market, closed }, shown, figures.of(market.id)),
  }
}

export const MARKET_EXAMPLE = {
  id: MARKET_ID,
  question: 'Will it rain in Delphi tomorrow?',
  description: 'Resolves YES if any rain is measured.',
  category: 'general',
  contractAddress: '0x5FbDB2315678afecb367f032d93F642f64180aa3',
  maker: TRADER,
  expiration: 1_900_000_000,
  chainId: 31_337,
  resolved: false,
  bestAskPrice: 430_000,
  createdAt: 1_800_000_000,
  event: null,
  ...TICKER_EXAMPLE,
}

const nextCursor = Type.Union([Type.String(), Type.Null()], {
  description: 'Value of `cursor` for the next page; null on the last page',
})

/** Number of listed markets that cost as much as one read. */
export const MARKETS_PER_READ = 25
/**
 * A filter costs one read for every `SCANNED_PER_READ` markets that it checks, but at most `SCAN_READS_MAX` reads. This
 * maximum is below the burst limit of an IP address.
 */
const SCANNED_PER_READ = 200
const SCAN_READS_MAX = 1_000

/** A list made from a page, and the versions of this front's data when the list was made. */
type MadeList = {
  readonly list: List
  readonly boardVersion: number
  readonly figuresVersion: number
  readonly eventsVersion: number
  readonly atMs: number
}

type Page = MarketPage<MadeList>

type ListRequest = RequestContext & {
  readonly ip?: string | undefined
  readonly headers: Readonly<Record<string, string>>
}

/**
 * Milliseconds after which the figures of a list are computed again. They cover the last 24 hours, so they change even
 * without a new trade, because old trades no longer count.
 */
const CHECKED_MS = 250

type ListSources = MarketSources & {
  readonly nowMs: () => number
  readonly pages: KeptPages<MadeList>
  readonly figures: FiguresBook
  readonly marketEvents: MarketEvents
  readonly waiters: Pick<SeqWaiters, 'untilFollowed'>
  readonly joined: JoinedAnswers
  /**
   * Makes clients take turns: selects the IP address whose list is made next. If undefined, lists are made in the order
   * of the requests.
   */
  readonly turns?: Pick<FairTurns, 'next'> | undefined
}

const ListQuery = Type.Object(
  {
    chain_id: Type.Optional(
      safeInteger({ min: 1, description: 'Lists only markets of this chain' }),
    ),
    category: Type.Optional(
      oneOf(CATEGORIES, { description: 'Lists only markets of this category' }),
    ),
    resolved: Type.Optional(
      flag({
        description:
          'True to list only resolved markets, false to list only unresolved ones; both by default',
      }),
    ),
    status: Type.Optional(
      oneOf(LIST_STATUSES, {
        description:
          '`open` lists only markets that accept orders; `ended` lists only markets that have expired or ' +
          'were resolved or withdrawn',
      }),
    ),
    quick: Type.Optional(flag({ description: 'True to include quick markets in the list' })),
    search: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: SEARCH_CHARS_MAX,
        description:
          'Lists only markets with this text in their question or description; upper and lower case are the ' +
          'same',
      }),
    ),
    limit: Type.Optional(
      safeInteger({
        min: 1,
        description: `Maximum number of markets on a page; ${MARKETS_LISTED_MAX} by default, which is the highest value`,
      }),
    ),
    cursor: Type.Optional(
      Type.String({ description: 'Value of `nextCursor` from the previous page' }),
    ),
  },
  { additionalProperties: false },
)

/** Returns the filter of a query. */
function filterOf(query: Static<typeof ListQuery>) {
  return {
    ...(query.chain_id === undefined ? {} : { chainId: query.chain_id }),
    ...(query.category === undefined ? {} : { category: query.category }),
    ...(query.resolved === undefined ? {} : { resolved: query.resolved }),
    ...(query.status === undefined ? {} : { status: query.status }),
    ...(query.quick === true ? {} : { quick: false }),
    ...(query.search === undefined ? {} : { search: query.search }),
  }
}

export function listMarkets(ports: ListSources): AnswerRoute {
  const { board, joined, pages } = ports
  const { unchanged, listOf } = makeListWriter(ports)
  /**
   * Number of markets on the longest page so far. `weigh` uses it to estimate the number of all markets, because this
   * front's board does not contain ended markets that were unloaded.
   */
  let longest = 0
  return route({
    method: 'GET',
    path: '/api/v1/markets',
    operationId: 'listMarkets',
    auth: 'public',
    cost: 'read',
    tag: 'markets',
    summary: 'List all markets',
    description:
      'The list includes quick markets only if `quick` is true. Open markets come before ended ' +
      'markets. In both groups, the oldest markets come first. A page has at most ' +
      `${MARKETS_LISTED_MAX} markets, and \`nextCursor\` is the cursor of the next page. The ` +
      `rate limit counts a page as one read for every ${MARKETS_PER_READ} markets. A request ` +
      `with \`resolved\` or \`search\` costs further reads: one for every ${SCANNED_PER_READ} ` +
      `markets of the exchange, but at most ${SCAN_READS_MAX}. Best prices are current. Last ` +
      'prices and volumes include a trade as soon as it is matched. If the chain rejects the ' +
      'trade later, they no longer include it. If the answer has the header `sibyl-stale: true`, ' +
      'the newest changes of some markets can be missing.',
    cacheControl: 'no-cache',
    revalidates: true,
    headers: ['accept-encoding'],
    weigh({ limit, category, resolved, search }) {
      const there = Math.max(board.markets.size, longest)
      // `resolved` and `search` check every market. `category` does so only without a chain: the index of a chain finds
      // a category directly.
      const scanned =
        resolved ?? search ?? (ports.chainMarkets === undefined ? category : undefined)
      const isScan = scanned !== undefined
      const listed = Math.min(there, isScan ? MARKETS_LISTED_MAX : pageOf(limit))
      const scan = isScan ? Math.floor(there / SCANNED_PER_READ) : 0
      return Math.max(1, Math.ceil(listed / MARKETS_PER_READ) + Math.min(SCAN_READS_MAX, scan))
    },
    query: ListQuery,
    responses: {
      200: Type.Object({
        markets: Type.Array(Market),
        count: Type.Integer({ description: 'Number of markets in this answer' }),
        nextCursor,
      }),
    },
    examples: {
      responses: {
        200: {
          'one market': { value: { markets: [MARKET_EXAMPLE], count: 1, nextCursor: null } },
        },
      },
    },
    handle(request) {
      const { query } = request
      if (!board.isWhole()) return reject('OVERLOADED')
      const after = placeOf(query.cursor)
      if (isRejection(after)) return after
      const limit = pageOf(query.limit)
      const name = JSON.stringify(query)
      const page = pages.page(name, async (nowSec) => {
        const found = await marketsFrom(ports, { ...filterOf(query), limit }, after, nowSec)
        return found.slice(0, limit)
      })
      const list = page instanceof Promise ? undefined : unchanged(page)
      // A synchronous answer costs the server less than an asynchronous one.
      if (list !== undefined) return answerOf(name, list, request)
      return make(name, page, limit, request)
    },
  })

  async function make(
    name: string,
    making: Page | Promise<Page>,
    limit: number,
    request: ListRequest,
  ): Promise<RawReply | Rejection> {
    const page = await making
    longest = Math.max(longest, page.markets.length)
    const list = unchanged(page) ?? (await listOf(page, limit, request))
    return isRejection(list) ? list : answerOf(name, list, request)
  }

  function answerOf(
    name: string,
    list: List,
    { headers }: ListRequest,
  ): RawReply | Promise<RawReply> {
    const answer = joined.answer(name, list, headers['accept-encoding'] ?? '')
    if (!(answer instanceof Promise)) return markStale(board, undefined, answer)
    return answer.then((zipped) => markStale(board, undefined, zipped))
  }
}

/**
 * Makes the functions that turn pages into lists. While nothing changes on this front, a page keeps its list for up to
 * `CHECKED_MS`.
 */
function makeListWriter(ports: ListSources) {
  const { board, figures, marketEvents, waiters, nowMs, turns } = ports
  /**
   * Cached list entries, by the market's figures object. After a change of the market or its figures, the object is a
   * new one and has no entry.
   */
  const listed = new WeakMap<
    MarketFigures,
    Pick<ListedMarket, 'closed' | 'winningOutcome'> & {
      readonly event: EventName | null
      readonly item: RawReply
    }
  >()
  /** Number of entries written so far. */
  let entriesMade = 0

  /** Returns the list that was made from this page, if the data in this front’s memory has not changed since then. */
  function unchanged({ answer }: Page): List | undefined {
    const isSame =
      answer?.boardVersion === board.version &&
      answer.figuresVersion === figures.version &&
      answer.eventsVersion === marketEvents.version &&
      nowMs() - answer.atMs < CHECKED_MS
    return isSame ? answer.list : undefined
  }

  async function listOf(
    page: Page,
    limit: number,
    request: ListRequest,
  ): Promise<List | Rejection> {
    const { markets } = page
    const atMs = nowMs()
    const marketIds = markets.map(({ market }) => market.id)
    const late = await waiters.untilFollowed(marketIds, request)
    if (late !== undefined) return late
    await turns?.next(request.ip ?? '')
    // While this request waited, another request may have made the list of this page.
    const made = unchanged(page)
    if (made !== undefined) return made
    await Promise.all([figures.prepare(marketIds), marketEvents.prepare(marketIds)])
    const items = await itemsOf(markets, request.ip ?? '')
    const last = markets.length < limit ? undefined : markets.at(-1)
    const next = last === undefined ? null : cursorBehind(last)
    const list = {
      before: '{"markets":[',
      items,
      after: `],"count":${markets.length},"nextCursor":${JSON.stringify(next)}}`,
    }
    const { version: boardVersion } = board
    const { version: eventsVersion } = marketEvents
    page.answer = { list, boardVersion, figuresVersion: figures.version, eventsVersion, atMs }
    return list
  }

  /**
   * Returns the list entries of the markets, all with the state of one turn of the event loop. After `ENTRIES_PER_TURN`
   * new or changed entries, the function pauses so that other work can run. If it has paused, it checks all entries
   * again in the last turn, and writes changed ones again.
   */
  async function itemsOf(markets: readonly ListedMarket[], ip: string): Promise<RawReply[]> {
    const items: RawReply[] = []
    let [atMs, madeBefore, pauses] = [nowMs(), entriesMade, 0]
    for (const found of markets) {
      items.push(written(found, atMs))
      if (entriesMade - madeBefore < ENTRIES_PER_TURN) continue
      await (turns?.next(ip) ?? nextTurn())
      pauses++
      atMs = nowMs()
      madeBefore = entriesMade
    }
    return pauses === 0 ? items : markets.map((found) => written(found, atMs))
  }

  /** Returns a market's list entry. Writes it again only if the market, its figures or its event changed. */
  function written(found: ListedMarket, atMs: number): RawReply {
    const { market, closed, winningOutcome } = found
    const known = figures.of(market.id, atMs)
    const event = marketEvents.of(market.id)
    const before = known === undefined ? undefined : listed.get(known)
    if (
      before !== undefined &&
      before.closed === closed &&
      before.winningOutcome === winningOutcome &&
      before.event === event
    )
      return before.item
    entriesMade++
    const raw = Buffer.from(writeJson(marketBody(found, figures, event)))
    const item: RawReply = { status: 200, raw, headers: { etag: entityTag(raw) } }
    if (known !== undefined) listed.set(known, { closed, winningOutcome, event, item })
    return item
  }

  return { unchanged, listOf }
}

/** Returns the maximum number of markets in a list, given its `limit`. */
function pageOf(limit: number | undefined): number {
  return Math.min(limit ?? MARKETS_LISTED_MAX, MARKETS_LISTED_MAX)
}

type OneMarketSources = {
  readonly board: MarketBoard
  readonly find: MarketFinder
  readonly waiters: Pick<SeqWaiters, 'until'>
  readonly figures: FiguresBook
  readonly marketEvents: MarketEvents
  /** Cached answers for markets that this front follows (`kept`), and for ended ones (`over`). */
  readonly kept: KeptAnswers
  readonly over: ReadCache
}

export function getMarket(ports: OneMarketSources): AnswerRoute {
  const { board, find, waiters, figures, marketEvents, kept, over } = ports
  return route({
    method: 'GET',
    path: '/api/v1/markets/{marketId}',
    operationId: 'getMarket',
    auth: 'public',
    cost: 'read',
    tag: 'markets',
    summary: 'Get a market',
    cacheControl: 'no-cache',
    revalidates: true,
    params: Type.Object({ marketId: marketIdParam() }, { additionalProperties: false }),
    query: Type.Object({ minSeq: minSeqParam() }, { additionalProperties: false }),
    responses: { 200: Market },
    errors: ['MARKET_NOT_FOUND', 'SEQ_NOT_REACHED'],
    examples: {
      responses: {
        200: {
          'an open market': { value: MARKET_EXAMPLE },
        },
      },
    },
    handle(request) {
      const { marketId } = request.path
      const late = waiters.until(marketId, request.query.minSeq, request)
      if (late === undefined) return answer(marketId)
      return late.then((rejection) => rejection ?? answer(marketId))
    },
  })

  function answer(marketId: MarketId): RawReply | Rejection | Promise<RawReply | Rejection> {
    const shown = board.markets.get(marketId)
    if (shown === undefined) {
      if (!board.isCurrent()) return read(marketId)
      // The market has ended, or never existed. Its data rarely changes, so readers can share one answer.
      return over.readJson(`market/${marketId}/${board.isGone(marketId)}`, () => written(marketId))
    }
    if (!figures.isPrepared(marketId)) return read(marketId)
    if (!marketEvents.isPrepared(marketId)) return prepared(marketId)
    // `figures.of` returns a new object after each change of the market or its figures.
    const known = figures.of(marketId)
    if (known === undefined) return read(marketId)
    const event = marketEvents.of(marketId)
    const name = `market/${marketId}/${event?.slug ?? ''}`
    const found = kept.find(name, known)
    const { market, closed } = shown
    const body = () => writeJson(marketBody({ market, closed, shown }, figures, event))
    const reply = found ?? kept.keep(name, known, body())
    return markStale(board, marketId, reply)
  }

  async function prepared(marketId: MarketId): Promise<RawReply | Rejection> {
    await marketEvents.prepare([marketId])
    return marketEvents.isPrepared(marketId) ? answer(marketId) : read(marketId)
  }

  async function read(marketId: MarketId): Promise<RawReply | Rejection> {
    const raw = await written(marketId)
    return isRejection(raw) ? raw : { status: 200, raw }
  }

  async function written(marketId: MarketId): Promise<string | Rejection> {
    const found = await find(marketId)
    if (isRejection(found)) return found
    await Promise.all([figures.prepare([marketId]), marketEvents.prepare([marketId])])
    return writeJson(marketBody(found, figures, marketEvents.of(marketId)))
  }
}
