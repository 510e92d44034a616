/** `DELETE /api/v1/orders`: cancels all open orders of the token's address, in one market or in all. */

import Type from 'typebox'
import { isRejection, reject } from '#domain/rejection.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import type { Delegates } from '#live/delegates.ts'
import type { MarketBoard } from '#live/market-board.ts'
import type { MarketGateway } from '#live/market-gateway.ts'
import { CancelledOrders } from '#protocol/shapes/orders.ts'
import { actingFor, actingTrader } from './acting-for.ts'
import { ORDER_HASH } from './order-examples.ts'
import { groupName, marketIdParam } from './order-shapes.ts'

export function cancelOrders(ports: {
  readonly board: MarketBoard
  readonly gateway: MarketGateway
  readonly mayAct?: Delegates['mayAct']
}): AnswerRoute {
  return route({
    method: 'DELETE',
    path: '/api/v1/orders',
    operationId: 'cancelOrders',
    auth: 'token',
    cost: 'write',
    tag: 'orders',
    summary: 'Cancel all of your open orders, or those of a group',
    description:
      'Always needs a bearer token, and cancels the orders of its address, or of an account whose delegate it is: open ones, and filled ' +
      'ones with unsettled trades, so that no part returns to the book if a trade fails.',
    query: Type.Object(
      {
        market: Type.Optional(marketIdParam()),
        group: Type.Optional(groupName()),
        trader: Type.Optional(actingTrader()),
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
      const { market, group } = query
      const trader = await actingFor(principal, query.trader, ports.mayAct)
      if (isRejection(trader)) return trader
      const { board } = ports
      if (market !== undefined && !board.markets.has(market) && !board.isGone(market)) {
        return reject('MARKET_NOT_FOUND', 'market')
      }
      const cancelled = await ports.gateway.cancelAll(trader, { marketId: market, group }, request)
      if (isRejection(cancelled)) return cancelled
      const { pending, ...rest } = cancelled
      // Several markets have several sequence numbers.
      const seq = market === undefined ? undefined : board.markets.get(market)?.seq
      const seen = market === undefined || seq === undefined ? {} : { marketId: market, seq }
      const open = pending.length === 0 ? {} : { pending }
      return { status: 200, body: { status: 'cancelled' as const, ...rest, ...open, ...seen } }
    },
  })
}
