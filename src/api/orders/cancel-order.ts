/** `DELETE /api/v1/orders/{hash}`: cancels one order. */

import Type from 'typebox'
import { BUY, SELL } from '#domain/order.ts'
import { isRejection } from '#domain/rejection.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import type { MarketGateway } from '#live/market-gateway.ts'
import { CancelledOrder } from '#protocol/shapes/orders.ts'
import {
  ACCEPT_RECEIPT,
  type Receipts,
  wantsReceipt,
  withReceipt,
} from '../transparency/receipts.ts'
import { actingTrader } from './acting-for.ts'
import { ORDER_HASH } from './order-examples.ts'
import { marketIdParam, orderHashParam, sideName } from './order-shapes.ts'
import type { OwnOrders } from './own-orders.ts'

export function cancelOrder(
  gateway: MarketGateway,
  own: Pick<OwnOrders, 'traderOf'>,
  receipts?: Receipts,
): AnswerRoute {
  return route({
    method: 'DELETE',
    path: '/api/v1/orders/{hash}',
    operationId: 'cancelOrder',
    auth: 'write',
    cost: 'write',
    tag: 'orders',
    summary: 'Cancel an order',
    description:
      'To cancel a sell order, the request must have `side=sell`, because the default of `side` ' +
      'is `buy`. If the exchange uses bearer authentication, an API key can cancel orders of its ' +
      'own address. With `trader`, the key can cancel orders of an account that appointed the ' +
      'key’s address as a delegate. An order with unsettled fills can be cancelled, too. These ' +
      'fills (their total size is `pendingSize`) can still settle. If they fail, their size does ' +
      'not return to the book. If the request has the header `Accept-Receipt: 1` and the ' +
      'exchange publishes its log, the answer contains a `receipt`.',
    staged: true,
    headers: [ACCEPT_RECEIPT],
    params: Type.Object({ hash: orderHashParam() }, { additionalProperties: false }),
    query: Type.Object(
      {
        marketId: marketIdParam(),
        side: Type.Optional(sideName()),
        trader: Type.Optional(actingTrader()),
      },
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
      const trader =
        principal === undefined
          ? query.trader
          : await own.traderOf(principal, query.trader, query.marketId)
      if (trader !== undefined && isRejection(trader)) return trader
      const answer = await gateway.cancel(
        {
          marketId: query.marketId,
          orderHash: path.hash,
          side: query.side === 'sell' ? SELL : BUY,
          ...(trader === undefined ? {} : { trader }),
        },
        request,
      )
      if (isRejection(answer)) return answer
      return { status: 200, body: withReceipt(answer, wantsReceipt(request.headers), receipts) }
    },
  })
}
