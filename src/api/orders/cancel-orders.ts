/** `DELETE /api/v1/orders`: cancels all open orders of the token's address, in one market or in all. */

import Type from 'typebox'
import { isRejection, reject } from '#domain/rejection.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { CancelledOrders } from '#protocol/shapes/orders.ts'
import { actingTrader } from './acting-for.ts'
import { ORDER_HASH } from './order-examples.ts'
import { groupName, marketIdParam } from './order-shapes.ts'
import type { OwnOrders } from './own-orders.ts'

export function cancelOrders(own: OwnOrders): AnswerRoute {
  return route({
    method: 'DELETE',
    path: '/api/v1/orders',
    operationId: 'cancelOrders',
    auth: 'token',
    cost: 'write',
    tag: 'orders',
    summary: 'Cancel all open orders, or those of a group',
    description:
      'This request always needs a bearer token. It cancels the orders of the token’s address. ' +
      'With `trader`, it cancels the orders of an account that appointed this address as a ' +
      'delegate. It also cancels filled orders whose trades are not settled yet: if such a trade ' +
      'fails, its quantity then does not return to the book.',
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
      const cancelled = await own.cancelAll(principal, query, request.deadlineAtMs)
      return isRejection(cancelled) ? cancelled : { status: 200, body: cancelled }
    },
  })
}
