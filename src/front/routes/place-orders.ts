/** `POST /api/v1/orders/batch`: many orders in one request, each answered on its own. */

import Type from 'typebox'
import { isRejection, type Rejection } from '#domain/rejection.ts'
import { errorBody, sentenceOf } from '../errors.ts'
import { type OrderDesk, submissionOf, submissionShape } from '../order-desk.ts'
import { ACCEPTED_EXAMPLE, BATCH_EXAMPLE } from '../order-examples.ts'
import {
  AcceptedOrder,
  acceptedBody,
  ErrorShape,
  OrderBatch,
  ShownOrderBatch,
} from '../order-shapes.ts'
import { type AnswerRoute, route } from '../route.ts'

export function placeOrders(desk: OrderDesk): AnswerRoute {
  return route({
    method: 'POST',
    path: '/api/v1/orders/batch',
    auth: 'write',
    cost: 'write',
    tag: 'orders',
    summary: 'Place up to 100 signed orders',
    description: 'Results are in the order of the request; one bad order does not stop the others.',
    body: OrderBatch,
    shownBody: ShownOrderBatch,
    responses: {
      200: Type.Object({
        results: Type.Array(Type.Union([AcceptedOrder, ErrorShape])),
        count: Type.Integer(),
      }),
    },
    examples: {
      body: { 'two orders': BATCH_EXAMPLE },
      responses: {
        200: {
          'one of two': {
            value: {
              results: [
                ACCEPTED_EXAMPLE.value,
                { error: 'market not found', code: 'MARKET_NOT_FOUND', field: 'order.marketId' },
              ],
              count: 2,
            },
          },
        },
      },
    },
    times: ({ orders }) => orders.length,
    async handle({ body, deadlineAtMs }) {
      const results = await Promise.all(
        body.orders.map(async (item) => {
          const answer = submissionShape.fits(item)
            ? await desk.place(submissionOf(item), deadlineAtMs)
            : submissionShape.flaw(item)
          return isRejection(answer) ? errorOf(answer) : acceptedBody(answer)
        }),
      )
      return { status: 200, body: { results, count: results.length } }
    },
  })
}

function errorOf(rejection: Rejection) {
  return errorBody(rejection, sentenceOf(rejection))
}
