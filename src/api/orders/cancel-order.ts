/** `DELETE /api/v1/orders/{hash}`: one order leaves its book. */

import Type from 'typebox'
import { BUY, SELL } from '#domain/order.ts'
import { isRejection } from '#domain/rejection.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import type { MarketGateway } from '#live/market-gateway.ts'
import { CancelledOrder } from '#protocol/shapes/orders.ts'
import { ORDER_HASH } from './order-examples.ts'
import { marketIdParam, orderHashParam, sideName } from './order-shapes.ts'

export function cancelOrder(gateway: MarketGateway): AnswerRoute {
  return route({
    method: 'DELETE',
    path: '/api/v1/orders/{hash}',
    operationId: 'cancelOrder',
    auth: 'write',
    cost: 'write',
    tag: 'orders',
    summary: 'Cancel an order',
    description:
      'Needs the side the order is on; the other side does not know it. With bearer ' +
      'authentication, only orders of the key’s own address can be cancelled. An order whose fills ' +
      'are not all settled can be cancelled, too: `pendingSize` is what may still settle, and nothing ' +
      'of it comes back to the book if it does not.',
    staged: true,
    params: Type.Object({ hash: orderHashParam() }, { additionalProperties: false }),
    query: Type.Object(
      { marketId: marketIdParam(), side: Type.Optional(sideName()) },
      { additionalProperties: false },
    ),
    responses: {
      200: CancelledOrder,
    },
    errors: [
      'NOT_ORDER_OWNER',
      'ORDER_NOT_FOUND',
      'MARKET_NOT_FOUND',
      'ORDER_CLOSED',
      'MARKET_CLOSED',
      'OVERLOADED',
      'OUTCOME_UNKNOWN',
    ],
    examples: {
      responses: {
        200: {
          cancelled: { value: { status: 'cancelled', orderHash: ORDER_HASH } },
          'a fill is not settled': {
            value: { status: 'cancelled', orderHash: ORDER_HASH, pendingSize: 4_000_000 },
          },
        },
      },
    },
    async handle(request) {
      const { path, query, principal } = request
      const answer = await gateway.cancel(
        {
          marketId: query.marketId,
          orderHash: path.hash,
          side: query.side === 'sell' ? SELL : BUY,
          ...(principal === undefined ? {} : { trader: principal.address }),
        },
        request,
      )
      return isRejection(answer) ? answer : { status: 200, body: answer }
    },
  })
}
