/** `POST /api/v1/orders`: places a signed order. */

import { isRejection } from '#domain/rejection.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { PlacedOrder } from '#protocol/shapes/orders.ts'
import {
  ACCEPT_RECEIPT,
  type Receipts,
  wantsReceipt,
  withReceipt,
} from '../transparency/receipts.ts'
import {
  ACCEPTED_EXAMPLE,
  DUPLICATE_EXAMPLE,
  ORDER_REJECTIONS,
  SUBMISSION_EXAMPLE,
  SUBMISSION_WITH_PERMIT_EXAMPLE,
} from './order-examples.ts'
import type { OrderService } from './order-service.ts'
import { OrderSubmission } from './order-shapes.ts'

export function placeOrder(service: OrderService, receipts?: Receipts): AnswerRoute {
  return route({
    method: 'POST',
    path: '/api/v1/orders',
    operationId: 'placeOrder',
    auth: 'write',
    cost: 'write',
    tag: 'orders',
    summary: 'Place a signed order',
    description:
      'On arrival, the order matches resting orders. A part that does not match stays in the ' +
      'book, unless `postOnly` or `timeInForce` says otherwise. If the request has `replaces`, ' +
      'the exchange cancels the order with that hash and places the new order in the same step. ' +
      'If the same signed order is sent again, the exchange returns the first answer again, with ' +
      '`duplicate: true`. If the request has the header `x-server-timing`, the answer has the ' +
      'header `Server-Timing` with the duration of each stage of the processing. If the request ' +
      'has the header `Accept-Receipt: 1` and the exchange publishes its log, the answer ' +
      'contains a `receipt`.',
    staged: true,
    headers: [ACCEPT_RECEIPT],
    body: OrderSubmission,
    responses: { 200: PlacedOrder },
    errors: [
      'PRICE_OUT_OF_RANGE',
      'SIZE_NOT_POSITIVE',
      'EXPIRATION_TOO_SOON',
      'EXPIRATION_TOO_FAR',
      'TOO_LATE',
      'INVALID_SIGNATURE',
      'INVALID_PERMIT',
      'NOTIONAL_TOO_SMALL',
      'POST_ONLY_WOULD_MATCH',
      'ORDER_NOT_FILLED',
      'NOT_ORDER_OWNER',
      'DELEGATE_LIMIT',
      'CHAIN_UNAVAILABLE',
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
      responses: { 200: { accepted: ACCEPTED_EXAMPLE, 'the same order again': DUPLICATE_EXAMPLE } },
    },
    async handle(request) {
      const answer = await service.place(request.body, request)
      if (isRejection(answer)) return answer
      return { status: 200, body: withReceipt(answer, wantsReceipt(request.headers), receipts) }
    },
  })
}
