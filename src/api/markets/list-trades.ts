/**
 * `GET /api/v1/trades/{marketId}` and `GET /api/v1/activity/{marketId}`: trades of a market, newest first; the newest
 * ones come from the front's memory.
 */

import Type, { type TSchema } from 'typebox'
import type { MarketId } from '#domain/ids.ts'
import { ACTIVITY_LISTED_MAX, TRADES_LISTED_MAX } from '#domain/limits.ts'
import { isRejection, type Rejection } from '#domain/rejection.ts'
import type { KeptAnswers } from '#http/kept-answers.ts'
import { pageWeight } from '#http/page-place.ts'
import type { ReadCache } from '#http/read-cache.ts'
import type { RequestContext } from '#http/request-context.ts'
import { type AnswerRoute, type RawReply, route } from '#http/route.ts'
import { safeInteger } from '#http/schemas.ts'
import {
  holdsNewest,
  isBefore,
  keepTrades,
  latestTrades,
  type MarketBoard,
  type ShownMarket,
  type ShownTrade,
} from '#live/market-board.ts'
import type { SeqWaiters } from '#live/seq-waiters.ts'
import { markStale } from '#live/stale-reply.ts'
import { nextBefore } from '#protocol/shapes/fields.ts'
import { MarketActivity, Trade } from '#protocol/shapes/trades.ts'
import { MARKET_ID } from '../orders/order-examples.ts'
import { marketIdParam, minSeqParam } from '../orders/order-shapes.ts'
import { type EarlierTradesPage, type TradeList, tradesPageJson } from './trade-pages.ts'
import { beforeTradeParam, placeBefore, TRADE_EXAMPLE } from './trade-shapes.ts'

export type TradeSources = {
  readonly board: MarketBoard
  readonly waiters: Pick<SeqWaiters, 'until'>
  /** Cache of the first page of trades of each market that this front follows. */
  readonly kept: KeptAnswers
  /** Cache of the first page of trades of each market that has ended. */
  readonly over: ReadCache
  /** Returns the newest trades from the database, newest first; with `before`, only older trades than the given one. */
  readonly storedTrades: (
    marketId: MarketId,
    limit: number,
    before: EarlierTradesPage['before'] | undefined,
  ) => Promise<ShownTrade[]>
  /** Returns a page of trades from the database, as JSON. */
  readonly earlierPage: (page: EarlierTradesPage) => Promise<string>
}

const closed = { additionalProperties: false } as const

function pageQuery(most: number) {
  return Type.Object(
    {
      limit: Type.Optional(
        safeInteger({
          min: 1,
          description: `Maximum number of trades; ${most} by default, which is the highest value`,
        }),
      ),
      before: Type.Optional(beforeTradeParam()),
      minSeq: minSeqParam(),
    },
    closed,
  )
}

/** A list of trades: the name of its field in the answer, and the maximum number of trades on a page. */
type Listing = { readonly name: TradeList; readonly most: number }

const TRADES: Listing = { name: 'trades', most: TRADES_LISTED_MAX }
const ACTIVITY: Listing = { name: 'activity', most: ACTIVITY_LISTED_MAX }

type PageRequest = RequestContext & {
  readonly path: { readonly marketId: MarketId }
  readonly query: { limit?: number; before?: string; minSeq?: number }
}

type Answered = RawReply | Rejection

/** Returns one page. If the newest trades are in memory, the page is returned without a promise. */
function answerPage(
  ports: TradeSources,
  listing: Listing,
  request: PageRequest,
): Answered | Promise<Answered> {
  const late = ports.waiters.until(request.path.marketId, request.query.minSeq, request)
  if (late === undefined) return pageNow(ports, listing, request)
  return late.then((rejection) => rejection ?? pageNow(ports, listing, request))
}

function pageNow(
  ports: TradeSources,
  listing: Listing,
  { path: { marketId }, query }: PageRequest,
): Answered | Promise<Answered> {
  const limit = Math.min(query.limit ?? listing.most, listing.most)
  const before = placeBefore(marketId, query.before)
  if (isRejection(before)) return before
  if (before === undefined) return newest(ports, listing, marketId, limit)
  return earlier(ports, { list: listing.name, marketId, limit, before })
}

/**
 * Returns the first page. All clients share it until the market has a new trade or one of its trades changes status.
 */
function newest(
  ports: TradeSources,
  listing: Listing,
  marketId: MarketId,
  limit: number,
): Answered | Promise<Answered> {
  const { board, kept, over } = ports
  const name = `${listing.name}/${marketId}/${limit}`
  const shown = board.markets.get(marketId)
  if (shown === undefined) {
    // The market has ended, or never existed. Its trades rarely change, so readers can share one answer.
    const read = async () =>
      tradesPageJson(
        listing.name,
        marketId,
        await ports.storedTrades(marketId, limit, undefined),
        limit,
      )
    if (board.isCurrent()) return over.readJson(`${name}/${board.isGone(marketId)}`, read)
    return read().then((raw) => ({ status: 200, raw }))
  }
  const found = kept.find(name, shown.tradesVersion) ?? fromBoard(ports, listing, shown, limit)
  if (found instanceof Promise) return found.then((page) => markStale(board, marketId, page))
  return markStale(board, marketId, found)
}

function fromBoard(
  ports: TradeSources,
  listing: Listing,
  shown: ShownMarket,
  limit: number,
): RawReply | Promise<RawReply> {
  if (!holdsNewest(shown, limit)) return fromBoth(ports, listing, shown, limit)
  const { market, tradesSeq, tradesVersion } = shown
  const json = tradesPageJson(
    listing.name,
    market.id,
    latestTrades([...shown.trades.values()], [], limit),
    limit,
  )
  const name = `${listing.name}/${market.id}/${limit}`
  // The entity tag contains the number of the last change of the market's trades, because only such a change alters the
  // list.
  return ports.kept.keep(name, tradesVersion, json, `W/"${tradesSeq}-${limit}"`)
}

async function fromBoth(
  ports: TradeSources,
  listing: Listing,
  shown: ShownMarket,
  limit: number,
): Promise<RawReply> {
  const { id } = shown.market
  // Reads as many trades as the front may keep in memory, so that the next request needs no database read.
  const stored = await ports.storedTrades(id, TRADES_LISTED_MAX, undefined)
  keepTrades(shown, stored)
  if (holdsNewest(shown, limit)) return fromBoard(ports, listing, shown, limit)
  const trades = latestTrades([...shown.trades.values()], stored, limit)
  return { status: 200, raw: tradesPageJson(listing.name, id, trades, limit) }
}

/**
 * Returns the trades before a given trade. They come from the front's memory. If memory has too few, the database
 * supplies the rest.
 */
async function earlier(
  { board, storedTrades, earlierPage }: TradeSources,
  page: EarlierTradesPage,
): Promise<RawReply> {
  const { list, marketId, limit, before } = page
  const shown = board.markets.get(marketId)
  const held = [...(shown?.trades.values() ?? [])].filter((trade) => isBefore(trade, before))
  if (held.length === 0 && shown?.hasAllTrades !== true) {
    return { status: 200, raw: await earlierPage(page) }
  }
  const isEnough = held.length >= limit || shown?.hasAllTrades === true
  const stored = isEnough ? [] : await storedTrades(marketId, limit, before)
  const raw = tradesPageJson(list, marketId, latestTrades(held, stored, limit), limit)
  return { status: 200, raw }
}

/** Makes a route that answers with a page of a list of trades. */
function tradesRoute(
  ports: TradeSources,
  listing: Listing,
  about: Pick<AnswerRoute, 'operationId' | 'path' | 'summary' | 'description'> & {
    readonly item: TSchema
    readonly example: object
  },
): AnswerRoute {
  const { item, example, ...rest } = about
  const { name, most } = listing
  return route({
    ...rest,
    method: 'GET',
    auth: 'public',
    cost: 'read',
    weigh: pageWeight,
    tag: 'markets',
    cacheControl: 'no-cache',
    revalidates: true,
    params: Type.Object({ marketId: marketIdParam() }, closed),
    query: pageQuery(most),
    responses: {
      200: Type.Object({
        marketId: Type.String(),
        [name]: Type.Array(item),
        count: Type.Integer(),
        nextBefore,
      }),
    },
    examples: {
      responses: {
        200: {
          'one trade': {
            value: { marketId: MARKET_ID, [name]: [example], count: 1, nextBefore: null },
          },
        },
      },
    },
    errors: ['SEQ_NOT_REACHED'],
    handle: (request) => answerPage(ports, listing, request),
  })
}

export const listTrades = (ports: TradeSources): AnswerRoute =>
  tradesRoute(ports, TRADES, {
    path: '/api/v1/trades/{marketId}',
    operationId: 'listTrades',
    summary: 'List the newest trades of a market',
    description: `The list has at most ${TRADES_LISTED_MAX} trades, newest first. It is empty for an unknown market.`,
    item: Trade,
    example: TRADE_EXAMPLE,
  })

export const listActivity = (ports: TradeSources): AnswerRoute =>
  tradesRoute(ports, ACTIVITY, {
    path: '/api/v1/activity/{marketId}',
    operationId: 'listActivity',
    summary: 'List the recent activity in a market',
    description:
      `The list has the ${ACTIVITY_LISTED_MAX} newest trades of the market, newest first. Each trade has the side ` +
      'of its taker and its settlement status. The list is empty for an unknown market.',
    item: MarketActivity,
    example: { ...TRADE_EXAMPLE, takerSide: 0 },
  })
