/** `DELETE /api/v1/orders`: all open orders of the token's address, in one market or in all. */

import Type from 'typebox'
import type { MarketId } from '#domain/ids.ts'
import { isRejection, reject } from '#domain/rejection.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { address } from '#http/schemas.ts'
import type { MarketBoard } from '#live/market-board.ts'
import type { MarketGateway } from '#live/market-gateway.ts'
import { ORDER_HASH } from './order-examples.ts'
import { marketIdParam, seenFrom } from './order-shapes.ts'

export function cancelOrders(ports: {
  readonly board: MarketBoard
  readonly gateway: MarketGateway
}): AnswerRoute {
  return route({
    method: 'DELETE',
    path: '/api/v1/orders',
    auth: 'token',
    cost: 'write',
    tag: 'orders',
    summary: 'Cancel all of your open orders',
    description: 'Always needs a bearer token, and covers the orders of its address only.',
    query: Type.Object(
      {
        market: Type.Optional(marketIdParam()),
        trader: Type.Optional(
          address({ description: 'The token’s own address, for those who like to say it' }),
        ),
      },
      { additionalProperties: false },
    ),
    responses: {
      200: Type.Object({
        status: Type.Literal('cancelled'),
        orderHashes: Type.Array(Type.String()),
        count: Type.Integer(),
        ...seenFrom,
      }),
    },
    errors: ['NOT_ORDER_OWNER', 'MARKET_NOT_FOUND', 'OVERLOADED', 'OUTCOME_UNKNOWN'],
    examples: {
      responses: {
        200: {
          'one order': {
            value: { status: 'cancelled', orderHashes: [ORDER_HASH], count: 1 },
          },
        },
      },
    },
    async handle(request) {
      const { query, principal } = request
      if (principal === undefined) return reject('UNAUTHORIZED_MISSING_HEADER')
      const { market, trader = principal.address } = query
      if (trader !== principal.address) return reject('NOT_ORDER_OWNER', 'trader')
      if (market !== undefined && !ports.board.markets.has(market)) {
        return reject('MARKET_NOT_FOUND', 'market')
      }
      let markets: Iterable<MarketId> = market === undefined ? [] : [market]
      if (market === undefined) {
        // There may be many markets; only those where the trader has orders are asked to cancel.
        const open = await ports.gateway.openOrders(trader, undefined, request)
        if (isRejection(open)) return open
        markets = new Set(open.map(({ marketId }) => marketId))
      }
      const orderHashes = await ports.gateway.cancelAll(trader, markets, request)
      if (isRejection(orderHashes)) return orderHashes
      const body = { status: 'cancelled' as const, orderHashes, count: orderHashes.length }
      // Several markets have several sequences.
      const seq = market === undefined ? undefined : ports.board.markets.get(market)?.seq
      if (market === undefined || seq === undefined) return { status: 200, body }
      return { status: 200, body: { ...body, marketId: market, seq } }
    },
  })
}
