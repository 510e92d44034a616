/** `POST /api/v1/orders/batch`: many orders in one request, each answered on its own. */

import Type from 'typebox'
import { BATCH_ORDERS_MAX, BODY_BYTES_MAX } from '#domain/limits.ts'
import { isRejection, type Rejection } from '#domain/rejection.ts'
import { errorBody, sentenceOf } from '#http/errors.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { ErrorShape, PlacedOrder } from '#protocol/shapes/orders.ts'
import { ACCEPTED_EXAMPLE, BATCH_EXAMPLE } from './order-examples.ts'
import { type OrderService, submissionOf, submissionShape, within } from './order-service.ts'
import { OrderBatch, type OrderSubmission, ShownOrderBatch } from './order-shapes.ts'
import { timeInForceOf } from './time-in-force.ts'

export function placeOrders(service: OrderService): AnswerRoute {
  return route({
    method: 'POST',
    path: '/api/v1/orders/batch',
    operationId: 'placeOrders',
    auth: 'write',
    cost: 'write',
    tag: 'orders',
    summary: `Place up to ${BATCH_ORDERS_MAX} signed orders`,
    description:
      'Orders enter as they are listed, and the results are in the same order. ' +
      'One bad order does not stop the others.',
    body: OrderBatch,
    bodyBytesMax: BODY_BYTES_MAX,
    shownBody: ShownOrderBatch,
    responses: {
      200: Type.Object({
        results: Type.Array(Type.Union([PlacedOrder, ErrorShape])),
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
    async handle(request) {
      // All are verified before the first one enters, so that they enter as they were listed.
      const verified = await Promise.all(
        request.body.orders.map((item) =>
          submissionShape.fits(item)
            ? service.verify(submissionOf(item), request)
            : submissionShape.flaw(item),
        ),
      )
      const answers = await Promise.all(
        verified.map((order, index) => {
          if (isRejection(order)) return order
          const timeInForce = timeInForceOf(request.body.orders[index] as OrderSubmission)
          return service.enter(
            order,
            timeInForce === undefined ? request : within(request, timeInForce),
          )
        }),
      )
      const results = answers.map((answer) => (isRejection(answer) ? errorOf(answer) : answer))
      return { status: 200, body: { results, count: results.length } }
    },
  })
}

function errorOf(rejection: Rejection) {
  return errorBody(rejection, sentenceOf(rejection))
}
