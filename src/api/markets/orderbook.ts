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
    outcome: Type.Optional(outcomeParam('Outcome of the book; both outcomes by default')),
    implied: Type.Optional(
      flag({
        description:
          'True to include the orders of the other outcome, each at a dollar minus its price. ' +
          'Allowed only together with `outcome`, and not with `seq` or `at`. Has an effect only ' +
          'in complementary markets',
      }),
    ),
    minSeq: minSeqParam(),
    seq: Type.Optional(
      safeInteger({
        min: 1,
        description:
          'Sequence number of a market event; the answer is the book just after that event',
      }),
    ),
    at: Type.Optional(
      Type.String({
        pattern: '^[0-9]{1,11}([.][0-9]{1,3})?$',
        description:
          'A time in Unix seconds, with up to three decimals; the answer is the book at that time',
      }),
    ),
  },
  { additionalProperties: false },
)

export function orderbook(ports: {
  readonly board: MarketBoard
  readonly waiters: Pick<SeqWaiters, 'until'>
  /** Reads past books; undefined if the log is not public. */
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
    summary: 'Get the order book of a market',
    cacheControl: 'no-cache',
    revalidates: true,
    readsIp: true,
    description:
      'With `outcome`, the answer is the book of that outcome. Without it, the answer has the ' +
      'orders of both outcomes in one book: sizes at the same price are added up. In a ' +
      'complementary market, a buy of one outcome at price q matches like a sell of the other ' +
      'outcome at a dollar minus q. With `implied=true`, the book of an outcome also includes ' +
      'the orders of the other outcome, converted in this way. The book of an unknown market is ' +
      'empty. If the answer has the header `sibyl-stale: true`, the newest orders can be ' +
      'missing, because this server has no confirmed connection to the server that runs the ' +
      'market. With `seq` or `at`, the answer is a past book from the public log. If the request ' +
      'also has `outcome`, the answer contains the checksum of this book. The rate limit counts ' +
      `a request for a past book as ${PAST_BOOK_WEIGHT} reads. Such a request fails with ` +
      '`NOT_FOUND` if the exchange does not publish its log.',
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
        return reject('INVALID_FIELD', 'implied', 'implied is allowed only together with outcome')
      }
      if (query.implied === true && (seq !== undefined || at !== undefined)) {
        return reject(
          'INVALID_FIELD',
          'implied',
          'implied is not allowed together with seq or at, because past books have no implied levels',
        )
      }
      if (seq !== undefined || at !== undefined) {
        if (seq !== undefined && at !== undefined) {
          return reject('INVALID_FIELD', 'at', 'seq and at must not be given together')
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
    // The book depends only on the market's sequence number, so the sequence number serves as its version.
    const headers = {
      etag: `W/"${shown.seq}-${query.outcome ?? ''}${isImplied ? '-implied' : ''}"`,
    }
    return markStale(board, path.marketId, { status: 200, raw, headers })
  }
}
