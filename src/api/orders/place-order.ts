/** `POST /api/v1/orders`: a signed order enters its market. */

import { isRejection } from '#domain/rejection.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { PlacedOrder } from '#protocol/shapes/orders.ts'
import {
  ACCEPTED_EXAMPLE,
  DUPLICATE_EXAMPLE,
  ORDER_REJECTIONS,
  SUBMISSION_EXAMPLE,
  SUBMISSION_WITH_PERMIT_EXAMPLE,
} from './order-examples.ts'
import type { OrderService } from './order-service.ts'
import { OrderSubmission } from './order-shapes.ts'

export function placeOrder(service: OrderService): AnswerRoute {
  return route({
    method: 'POST',
    path: '/api/v1/orders',
    operationId: 'placeOrder',
    auth: 'write',
    cost: 'write',
    tag: 'orders',
    summary: 'Place a signed order',
    description:
      'Matches at once what can be matched; the rest stays on the book, unless `postOnly` or ' +
      '`timeInForce` ask for something else, which the market decides in one step. The same signed order ' +
      'again is answered with the first answer and `duplicate: true`. With the header ' +
      '`x-server-timing`, the answer says in `Server-Timing` where its time went.',
    staged: true,
    body: OrderSubmission,
    responses: { 200: PlacedOrder },
    errors: [
      'PRICE_OUT_OF_RANGE',
      'SIZE_NOT_POSITIVE',
      'EXPIRATION_TOO_SOON',
      'EXPIRATION_TOO_FAR',
      'INVALID_SIGNATURE',
      'INVALID_PERMIT',
      'NOTIONAL_TOO_SMALL',
      'POST_ONLY_WOULD_MATCH',
      'ORDER_NOT_FILLED',
      'MARKET_NOT_FOUND',
      'MARKET_CLOSED',
      'ORDER_CLOSED',
      'ORDER_NONCE_TOO_LOW',
      'RATE_LIMITED',
      'TRADER_PAUSED',
      'ALLOWANCE_CHANGING',
      'TOO_MANY_PENDING_TRADES',
      'GAS_BUDGET_SPENT',
      'CANCEL_QUOTA_SPENT',
      'OVERLOADED',
      'STORAGE_FULL',
      'OUTCOME_UNKNOWN',
    ],
    shownErrors: ORDER_REJECTIONS,
    examples: {
      body: {
        'a buy of YES': SUBMISSION_EXAMPLE,
        'with a permit': SUBMISSION_WITH_PERMIT_EXAMPLE,
      },
      responses: { 200: { accepted: ACCEPTED_EXAMPLE, 'the same again': DUPLICATE_EXAMPLE } },
    },
    async handle(request) {
      const answer = await service.place(request.body, request)
      return isRejection(answer) ? answer : { status: 200, body: answer }
    },
  })
}
