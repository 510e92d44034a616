/**
 * `GET /api/v1/markets` and `GET /api/v1/markets/{marketId}`: the markets of the exchange, with the
 * best prices of this moment. Those that are over and gone from their threads come from the database.
 */

import Type, { type Static } from 'typebox'
import { checksumAddress } from '#domain/checksum-address.ts'
import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import { MARKETS_LISTED_MAX, SEARCH_CHARS_MAX } from '#domain/limits.ts'
import { CATEGORIES, type Category, type CloseReason, type Market } from '#domain/market.ts'
import { YES } from '#domain/order.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import { writeJson } from '#http/json.ts'
import type { KeptAnswers } from '#http/kept-answers.ts'
import type { ReadCache } from '#http/read-cache.ts'
import { type AnswerRoute, type RawReply, route } from '#http/route.ts'
import { flag, oneOf, safeInteger } from '#http/schemas.ts'
import type { MarketBoard } from '#live/market-board.ts'
import type { FiguresBook } from '#live/market-figures.ts'
import type { FoundMarket, MarketFinder, StoredMarket } from '#live/market-finder.ts'
import type { SeqWaiters } from '#live/seq-waiters.ts'
import { TICKER_EXAMPLE, tickerBody, tickerFields } from '#live/ticker-shapes.ts'
import { MARKET_ID, TRADER } from '../orders/order-examples.ts'
import { marketIdParam, minSeqParam } from '../orders/order-shapes.ts'

const MarketShape = Type.Object(
  {
    id: Type.String(),
    question: Type.String(),
    description: Type.String(),
    category: Type.Enum([...CATEGORIES]),
    contractAddress: Type.String(),
    maker: Type.String(),
    expiration: Type.Integer({ description: 'Unix seconds' }),
    chainId: Type.Integer(),
    resolved: Type.Boolean(),
    bestAskPrice: Type.Integer({ description: 'Best YES ask, 6 decimals; 0 when there is none' }),
    createdAt: Type.Integer({ description: 'Unix seconds' }),
    ...tickerFields,
  },
  { title: 'Market' },
)

function marketBody(found: FoundMarket, figures: FiguresBook): Static<typeof MarketShape> {
  const { market, closed, shown } = found
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
    ...tickerBody({ quick: market.quick, closed }, shown, figures.of(market.id)),
  }
}

const MARKET_EXAMPLE = {
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
  ...TICKER_EXAMPLE,
}

/** A place in the list: behind the market that was created then and has this id. */
type MarketPlace = { readonly createdAt: number; readonly id: MarketId | undefined }

type MarketSources = {
  readonly board: MarketBoard
  readonly figures: FiguresBook
  readonly waiters: Pick<SeqWaiters, 'untilFollowed'>
  readonly nowMs: () => number
  /** Markets that the database holds, oldest first, behind a place. */
  readonly storedMarkets: (filter: {
    chainId?: number
    quick?: boolean
    limit: number
    after: MarketPlace
  }) => Promise<readonly StoredMarket[]>
  /**
   * With a chain: its markets, oldest first. Then it alone says which there are, so that none is
   * listed that a reorg took away, and none is missing that is over.
   */
  readonly chainMarkets?: (filter: ChainListFilter) => Promise<readonly ChainListedMarket[]>
}

type ChainListFilter = MarketFilter & {
  readonly after?: { readonly createdAt: number; readonly id: MarketId }
  readonly limit: number
}

type ChainListedMarket = Market & { readonly resolved: boolean; readonly withdrawn: boolean }

type MarketFilter = {
  readonly chainId?: number
  readonly category?: Category
  readonly resolved?: boolean
  /** Left out: quick markets and all others. */
  readonly quick?: boolean
  readonly search?: string
}

function fits({ market, closed }: FoundMarket, filter: MarketFilter): boolean {
  const { chainId, category, resolved, quick, search } = filter
  if (chainId !== undefined && market.chainId !== chainId) return false
  if (category !== undefined && market.category !== category) return false
  if (resolved !== undefined && (closed === 'resolved') !== resolved) return false
  if (quick !== undefined && market.quick !== quick) return false
  if (search === undefined) return true
  return `${market.question}\n${market.description}`.toLowerCase().includes(search.toLowerCase())
}

const BEGINNING: MarketPlace = { createdAt: 0, id: undefined }
const PLACE = /^(0|[1-9][0-9]{0,15})-(0x[0-9a-fA-F]{64})$/

function placeOf(cursor: string | undefined): MarketPlace | Rejection {
  if (cursor === undefined) return BEGINNING
  const parts = PLACE.exec(cursor)
  if (parts === null) return reject('INVALID_FIELD', 'cursor', 'cursor must be a nextCursor')
  return { createdAt: Number(parts[1]), id: (parts[2] ?? '').toLowerCase() as MarketId }
}

function isBehind({ createdAt, id }: Market, place: MarketPlace): boolean {
  if (createdAt !== place.createdAt || place.id === undefined) return createdAt >= place.createdAt
  return id > place.id
}

const nextCursor = Type.Union([Type.String(), Type.Null()], {
  description: 'Pass it as `cursor` for the next ones; null at the end',
})

export function listMarkets(ports: MarketSources): AnswerRoute {
  const { board, figures, waiters } = ports
  return route({
    method: 'GET',
    path: '/api/v1/markets',
    operationId: 'listMarkets',
    auth: 'public',
    cost: 'read',
    tag: 'markets',
    summary: 'All markets',
    description:
      `Quick markets are left out unless \`quick=true\`. Oldest first, up to ` +
      `${MARKETS_LISTED_MAX} at once. Best prices are of this moment. Every matched trade counts in ` +
      'last prices and volumes, until the chain refuses it.',
    cacheControl: 'no-cache',
    revalidates: true,
    query: Type.Object(
      {
        chain_id: Type.Optional(safeInteger({ min: 1, description: 'Only of this chain' })),
        category: Type.Optional(oneOf(CATEGORIES, { description: 'Only of this category' })),
        resolved: Type.Optional(
          flag({ description: 'Only resolved ones, or only those that are not' }),
        ),
        quick: Type.Optional(flag({ description: 'Quick markets too' })),
        search: Type.Optional(
          Type.String({
            minLength: 1,
            maxLength: SEARCH_CHARS_MAX,
            description: 'Only with these words in question or description, in any case',
          }),
        ),
        limit: Type.Optional(
          safeInteger({
            min: 1,
            description: `How many; ${MARKETS_LISTED_MAX} unless said, and at most`,
          }),
        ),
        cursor: Type.Optional(Type.String({ description: 'Where the page before ended' })),
      },
      { additionalProperties: false },
    ),
    responses: {
      200: Type.Object({
        markets: Type.Array(MarketShape),
        count: Type.Integer({ description: 'How many are in this answer' }),
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
    async handle(request) {
      const { query } = request
      if (!board.isWhole()) return reject('OVERLOADED')
      const after = placeOf(query.cursor)
      if (isRejection(after)) return after
      const limit = Math.min(query.limit ?? MARKETS_LISTED_MAX, MARKETS_LISTED_MAX)
      const filter = {
        ...(query.chain_id === undefined ? {} : { chainId: query.chain_id }),
        ...(query.category === undefined ? {} : { category: query.category }),
        ...(query.resolved === undefined ? {} : { resolved: query.resolved }),
        ...(query.quick === true ? {} : { quick: false }),
        ...(query.search === undefined ? {} : { search: query.search }),
      }
      const sorted =
        ports.chainMarkets === undefined
          ? await ofBoard(ports, filter, limit, after)
          : await ofChain(ports, ports.chainMarkets, { ...filter, limit }, after)
      const page = sorted.slice(0, limit)
      const marketIds = page.map(({ market }) => market.id)
      const late = await waiters.untilFollowed(marketIds, request)
      if (late !== undefined) return late
      await figures.prepare(marketIds)
      const markets = page.map((found) => marketBody(found, figures))
      const last = sorted.length < limit ? undefined : markets.at(-1)
      const next = last === undefined ? null : `${last.createdAt}-${last.id}`
      return { status: 200, body: { markets, count: markets.length, nextCursor: next } }
    },
  })
}

async function ofChain(
  { board, nowMs }: MarketSources,
  chainMarkets: NonNullable<MarketSources['chainMarkets']>,
  filter: MarketFilter & { readonly limit: number },
  { createdAt, id }: MarketPlace,
): Promise<FoundMarket[]> {
  const after = id === undefined ? {} : { after: { createdAt, id } }
  const listed = await chainMarkets({ ...filter, ...after })
  const nowSec = nowMs() / 1_000
  return listed.map((market) => {
    const shown = board.markets.get(market.id)
    if (market.resolved) return { market, closed: 'resolved', shown }
    return { market, closed: shown === undefined ? gone(market, nowSec) : shown.closed, shown }
  })
}

/** Why a market that no thread holds any more takes no orders. */
function gone(market: ChainListedMarket, nowSec: number): CloseReason | undefined {
  if (market.withdrawn) return 'withdrawn'
  return market.expiration <= nowSec ? 'expired' : undefined
}

async function ofBoard(
  ports: MarketSources,
  filter: MarketFilter,
  limit: number,
  after: MarketPlace,
): Promise<FoundMarket[]> {
  const all = new Map<MarketId, FoundMarket>()
  const { chainId, quick } = filter
  // The database knows two of the filters; for the others more has to be read than is asked for.
  const narrowed = filter.category ?? filter.resolved ?? filter.search
  const stored = await storedOrNone(
    ports,
    {
      ...(chainId === undefined ? {} : { chain_id: chainId }),
      ...(quick === undefined ? { quick: true } : {}),
    },
    narrowed === undefined ? limit : MARKETS_LISTED_MAX,
    after,
  )
  for (const market of stored) {
    all.set(market.id, { market, closed: market.closeReason ?? undefined, shown: undefined })
  }
  // What is on the board is newer than what the database says of it.
  for (const shown of ports.board.markets.values()) {
    const { market, closed } = shown
    if (isBehind(market, after)) all.set(market.id, { market, closed, shown })
  }
  return [...all.values()]
    .filter((found) => fits(found, filter))
    .sort((a, b) => a.market.createdAt - b.market.createdAt || (a.market.id < b.market.id ? -1 : 1))
}

/** A database that is away hides old markets; those that trade are listed nevertheless. */
async function storedOrNone(
  { storedMarkets }: MarketSources,
  query: { chain_id?: number; quick?: boolean },
  limit: number,
  after: MarketPlace,
): Promise<readonly StoredMarket[]> {
  try {
    return await storedMarkets({
      ...(query.chain_id === undefined ? {} : { chainId: query.chain_id }),
      ...(query.quick === true ? {} : { quick: false }),
      limit,
      after,
    })
  } catch (error) {
    if (error instanceof Fault && error.retryable) return []
    throw error
  }
}

type OneMarketSources = {
  readonly board: MarketBoard
  readonly find: MarketFinder
  readonly waiters: Pick<SeqWaiters, 'until'>
  readonly figures: FiguresBook
  /** Markets that this front follows, and those that are over. */
  readonly kept: KeptAnswers
  readonly over: ReadCache
}

export function getMarket(ports: OneMarketSources): AnswerRoute {
  const { board, find, waiters, figures, kept, over } = ports
  return route({
    method: 'GET',
    path: '/api/v1/markets/{marketId}',
    operationId: 'getMarket',
    auth: 'public',
    cost: 'read',
    tag: 'markets',
    summary: 'One market',
    cacheControl: 'no-cache',
    revalidates: true,
    params: Type.Object({ marketId: marketIdParam() }, { additionalProperties: false }),
    query: Type.Object({ minSeq: minSeqParam() }, { additionalProperties: false }),
    responses: { 200: MarketShape },
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
      // Nothing that the front was not told of can happen to it: it is over, or never was.
      return over.readJson(`market/${marketId}/${board.isGone(marketId)}`, () => written(marketId))
    }
    if (!figures.isPrepared(marketId)) return read(marketId)
    // Another object after each change of the market and of its figures.
    const known = figures.of(marketId)
    if (known === undefined) return read(marketId)
    const name = `market/${marketId}`
    const found = kept.find(name, known)
    if (found !== undefined) return found
    const { market, closed } = shown
    return kept.keep(name, known, writeJson(marketBody({ market, closed, shown }, figures)))
  }

  async function read(marketId: MarketId): Promise<RawReply | Rejection> {
    const raw = await written(marketId)
    return isRejection(raw) ? raw : { status: 200, raw }
  }

  async function written(marketId: MarketId): Promise<string | Rejection> {
    const found = await find(marketId)
    if (isRejection(found)) return found
    await figures.prepare([marketId])
    return writeJson(marketBody(found, figures))
  }
}
