/**
 * `GET /api/v1/trades/{marketId}` and `GET /api/v1/activity/{marketId}`: the trades of a market, the
 * newest first, from the front's own memory as far as it reaches.
 */

import Type from 'typebox'
import type { MarketId } from '#domain/ids.ts'
import { ACTIVITY_LISTED_MAX, TRADES_LISTED_MAX } from '#domain/limits.ts'
import { isRejection, type Rejection } from '#domain/rejection.ts'
import { pageWeight } from '#http/page-place.ts'
import type { RequestContext } from '#http/request-context.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { safeInteger } from '#http/schemas.ts'
import {
  isBefore,
  keepTrades,
  latestTrades,
  type MarketBoard,
  type ShownTrade,
} from '#live/market-board.ts'
import type { SeqWaiters } from '#live/seq-waiters.ts'
import { MARKET_ID } from '../orders/order-examples.ts'
import { marketIdParam, minSeqParam } from '../orders/order-shapes.ts'
import {
  ActivityShape,
  beforeTradeParam,
  nextBefore,
  placeBefore,
  TRADE_EXAMPLE,
  type TradePlace,
  TradeShape,
  tradeBody,
} from './trade-shapes.ts'

export type TradeSources = {
  readonly board: MarketBoard
  readonly waiters: Pick<SeqWaiters, 'until'>
  /** Trades that the database holds, the newest first; all, or those before one. */
  readonly storedTrades: (
    marketId: MarketId,
    limit: number,
    before: TradePlace | undefined,
  ) => Promise<ShownTrade[]>
}

const closed = { additionalProperties: false } as const

function pageQuery(most: number) {
  return Type.Object(
    {
      limit: Type.Optional(
        safeInteger({ min: 1, description: `How many; ${most} unless said, and at most` }),
      ),
      before: Type.Optional(beforeTradeParam()),
      minSeq: minSeqParam(),
    },
    closed,
  )
}

/** One page, and the place to go on from. */
async function page(
  { board, storedTrades, waiters }: TradeSources,
  request: RequestContext & {
    readonly path: { readonly marketId: MarketId }
    readonly query: { limit?: number; before?: string; minSeq?: number }
  },
  most: number,
): Promise<{ trades: ShownTrade[]; next: string | null } | Rejection> {
  const { query } = request
  const { marketId } = request.path
  const late = await waiters.until(marketId, query.minSeq, request)
  if (late !== undefined) return late
  const before = placeBefore(marketId, query.before)
  if (isRejection(before)) return before
  const limit = Math.min(query.limit ?? most, most)
  const shown = board.markets.get(marketId)
  const held = [...(shown?.trades.values() ?? [])].filter((trade) => isBefore(trade, before))
  const isEnough = held.length >= limit || shown?.hasAllTrades === true
  const stored = isEnough ? [] : await storedTrades(marketId, limit, before)
  if (shown !== undefined && !isEnough && before === undefined) keepTrades(shown, stored, limit)
  const trades = latestTrades(held, stored, limit)
  const last = trades.length < limit ? undefined : trades.at(-1)
  return { trades, next: last?.tradeId ?? null }
}

export function listTrades(ports: TradeSources): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/trades/{marketId}',
    auth: 'public',
    cost: 'read',
    weigh: pageWeight,
    tag: 'markets',
    summary: 'The newest trades of a market',
    description: 'Up to 100, newest first. An unknown market has none.',
    cacheControl: 'no-cache',
    revalidates: true,
    params: Type.Object({ marketId: marketIdParam() }, closed),
    query: pageQuery(TRADES_LISTED_MAX),
    responses: {
      200: Type.Object({
        marketId: Type.String(),
        trades: Type.Array(TradeShape),
        count: Type.Integer(),
        nextBefore,
      }),
    },
    examples: {
      responses: {
        200: {
          'one trade': {
            value: { marketId: MARKET_ID, trades: [TRADE_EXAMPLE], count: 1, nextBefore: null },
          },
        },
      },
    },
    errors: ['SEQ_NOT_REACHED'],
    async handle(request) {
      const { marketId } = request.path
      const found = await page(ports, request, TRADES_LISTED_MAX)
      if (isRejection(found)) return found
      const trades = found.trades.map(tradeBody)
      const body = { marketId, trades, count: trades.length, nextBefore: found.next }
      return { status: 200, body }
    },
  })
}

export function listActivity(ports: TradeSources): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/activity/{marketId}',
    auth: 'public',
    cost: 'read',
    weigh: pageWeight,
    tag: 'markets',
    summary: 'What has been going on in a market',
    description:
      'Its 50 newest trades, newest first, each with who came second and how far it is. An ' +
      'unknown market has none.',
    cacheControl: 'no-cache',
    revalidates: true,
    params: Type.Object({ marketId: marketIdParam() }, closed),
    query: pageQuery(ACTIVITY_LISTED_MAX),
    responses: {
      200: Type.Object({
        marketId: Type.String(),
        activity: Type.Array(ActivityShape),
        count: Type.Integer(),
        nextBefore,
      }),
    },
    examples: {
      responses: {
        200: {
          'one trade': {
            value: {
              marketId: MARKET_ID,
              activity: [{ ...TRADE_EXAMPLE, takerSide: 0 }],
              count: 1,
              nextBefore: null,
            },
          },
        },
      },
    },
    errors: ['SEQ_NOT_REACHED'],
    async handle(request) {
      const { marketId } = request.path
      const found = await page(ports, request, ACTIVITY_LISTED_MAX)
      if (isRejection(found)) return found
      const activity = found.trades.map((trade) => ({
        ...tradeBody(trade),
        takerSide: trade.takerSide,
      }))
      const body = { marketId, activity, count: activity.length, nextBefore: found.next }
      return { status: 200, body }
    },
  })
}
