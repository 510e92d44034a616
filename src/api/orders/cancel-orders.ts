/** `DELETE /api/v1/orders`: all open orders of the token's address, in one market or in all. */

import Type from 'typebox'
import { isRejection, reject } from '#domain/rejection.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { address } from '#http/schemas.ts'
import type { MarketBoard } from '#live/market-board.ts'
import type { MarketGateway } from '#live/market-gateway.ts'
import { CancelledOrders } from '#protocol/shapes/orders.ts'
import { ORDER_HASH } from './order-examples.ts'
import { marketIdParam } from './order-shapes.ts'

export function cancelOrders(ports: {
  readonly board: MarketBoard
  readonly gateway: MarketGateway
}): AnswerRoute {
  return route({
    method: 'DELETE',
    path: '/api/v1/orders',
    operationId: 'cancelOrders',
    auth: 'token',
    cost: 'write',
    tag: 'orders',
    summary: 'Cancel all of your open orders',
    description:
      'Always needs a bearer token, and covers the orders of its address only: those that are open, and ' +
      'those that were filled by trades which are not settled, so that nothing comes back of them.',
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
      200: CancelledOrders,
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
      const { board } = ports
      if (market !== undefined && !board.markets.has(market) && !board.isGone(market)) {
        return reject('MARKET_NOT_FOUND', 'market')
      }
      const cancelled = await ports.gateway.cancelAll(trader, market, request)
      if (isRejection(cancelled)) return cancelled
      const { pending, ...rest } = cancelled
      // Several markets have several sequences.
      const seq = market === undefined ? undefined : board.markets.get(market)?.seq
      const seen = market === undefined || seq === undefined ? {} : { marketId: market, seq }
      const open = pending.length === 0 ? {} : { pending }
      return { status: 200, body: { status: 'cancelled' as const, ...rest, ...open, ...seen } }
    },
  })
}
