/** `GET /api/v1/orderbook/{marketId}`: levels of a book, from the front's memory. */

import Type from 'typebox'
import type { MarketId } from '#domain/ids.ts'
import { reject } from '#domain/rejection.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { flag, safeInteger } from '#http/schemas.ts'
import {
  emptyOrderbookJson,
  impliedBookJson,
  type MarketBoard,
  orderbookJson,
} from '#live/market-board.ts'
import type { SeqWaiters } from '#live/seq-waiters.ts'
import { markStale } from '#live/stale-reply.ts'
import { BookAnswer } from '#protocol/shapes/markets.ts'
import { MARKET_ID } from '../orders/order-examples.ts'
import { marketIdParam, minSeqParam } from '../orders/order-shapes.ts'
import { type History, PAST_BOOK_WEIGHT, pastBook } from './history.ts'
import { OUTCOME_OF, outcomeParam } from './outcome-param.ts'

const BOOK_QUERY = Type.Object(
  {
    outcome: Type.Optional(outcomeParam('The outcome; both by default')),
    implied: Type.Optional(
      flag({
        description:
          'True to add the levels that orders of the other outcome imply; needs `outcome`. Only a complementary ' +
          'market has any',
      }),
    ),
    minSeq: minSeqParam(),
    seq: Type.Optional(
      safeInteger({ min: 1, description: 'The book after the event with this sequence number' }),
    ),
    at: Type.Optional(
      Type.String({
        pattern: '^[0-9]{1,11}([.][0-9]{1,3})?$',
        description: 'The book at this time: Unix seconds, with up to three decimals',
      }),
    ),
  },
  { additionalProperties: false },
)

export function orderbook(ports: {
  readonly board: MarketBoard
  readonly waiters: Pick<SeqWaiters, 'until'>
  /** Undefined if the log is not public. */
  readonly history?: History | undefined
}): AnswerRoute {
  const { board, waiters, history } = ports
  return route({
    method: 'GET',
    path: '/api/v1/orderbook/{marketId}',
    operationId: 'getOrderbook',
    auth: 'public',
    cost: 'read',
    tag: 'markets',
    summary: 'The order book of a market',
    cacheControl: 'no-cache',
    revalidates: true,
    description:
      'With `outcome` the book of that outcome, without it the orders of both, merged by price. ' +
      'In a complementary market a buy of the other outcome at q can match like a sell of this one at 1 − q: ' +
      '`implied=true` shows such levels too. An unknown market has an empty book. The header `sibyl-stale: true` marks a book that may lack the ' +
      'newest orders, because this server has no confirmed connection to the owner of the market. With `seq` or `at` ' +
      'the book is read from the public log as it was then, with the checksum that the stream had; that costs ' +
      `${PAST_BOOK_WEIGHT} reads, and is \`NOT_FOUND\` if the log is not public.`,
    weigh: (query) => (query.seq === undefined && query.at === undefined ? 1 : PAST_BOOK_WEIGHT),
    params: Type.Object({ marketId: marketIdParam() }, { additionalProperties: false }),
    query: BOOK_QUERY,
    responses: {
      200: BookAnswer,
    },
    examples: {
      responses: {
        200: {
          'a book': {
            value: {
              marketId: MARKET_ID,
              bids: [{ price: 420_000, size: 10_000_000 }],
              asks: [{ price: 430_000, size: 2_500_000 }],
              lastUpdate: 1_800_000_000,
              seq: 17,
            },
          },
        },
      },
    },
    errors: ['SEQ_NOT_REACHED', 'NOT_FOUND', 'MARKET_NOT_FOUND', 'INVALID_FIELD'],
    handle(request) {
      const { path, query } = request
      const { seq, at } = query
      if (query.implied === true && query.outcome === undefined) {
        return reject('INVALID_FIELD', 'implied', 'implied needs an outcome')
      }
      if (query.implied === true && (seq !== undefined || at !== undefined)) {
        return reject(
          'INVALID_FIELD',
          'implied',
          'implied works for the current book only, not with seq or at',
        )
      }
      if (seq !== undefined || at !== undefined) {
        if (seq !== undefined && at !== undefined) {
          return reject('INVALID_FIELD', 'at', 'give seq or at, not both')
        }
        const until = seq === undefined ? { atMs: Math.round(Number(at) * 1_000) } : { seq }
        const outcome = query.outcome === undefined ? undefined : OUTCOME_OF[query.outcome]
        return pastBook(
          { history, board, ip: request.ip },
          { marketId: path.marketId, until, outcome },
        )
      }
      const late = waiters.until(path.marketId, query.minSeq, request)
      if (late !== undefined) return late.then((rejection) => rejection ?? answer(path, query))
      return answer(path, query)
    },
  })

  function answer(
    path: { readonly marketId: MarketId },
    query: { readonly outcome?: keyof typeof OUTCOME_OF; readonly implied?: boolean },
  ) {
    const shown = board.markets.get(path.marketId)
    if (shown === undefined) {
      if (!board.isCurrent()) return reject('OVERLOADED')
      return { status: 200, raw: emptyOrderbookJson(path.marketId) }
    }
    const outcome = query.outcome === undefined ? undefined : OUTCOME_OF[query.outcome]
    const isImplied = query.implied === true && outcome !== undefined
    const raw = isImplied ? impliedBookJson(shown, outcome) : orderbookJson(shown, outcome)
    // The book depends only on the market's sequence number, so that is its version.
    const headers = {
      etag: `W/"${shown.seq}-${query.outcome ?? ''}${isImplied ? '-implied' : ''}"`,
    }
    return markStale(board, path.marketId, { status: 200, raw, headers })
  }
}
