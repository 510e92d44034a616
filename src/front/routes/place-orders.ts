/** `POST /api/v1/orders/batch`: many orders in one request, each answered on its own. */

import Type from 'typebox'
import { isRejection, type Rejection } from '#domain/rejection.ts'
import { errorBody, sentenceOf } from '../errors.ts'
import type { OrderDesk } from '../order-desk.ts'
import { ACCEPTED_EXAMPLE, SUBMISSION_EXAMPLE } from '../order-examples.ts'
import {
  AcceptedOrder,
  acceptedBody,
  ErrorShape,
  OrderBatch,
  OrderSubmission,
} from '../order-shapes.ts'
import { type AnswerRoute, route } from '../route.ts'
import { compileValidator } from '../validate.ts'

const submission = compileValidator(OrderSubmission)

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
    responses: {
      200: Type.Object({
        results: Type.Array(Type.Union([AcceptedOrder, ErrorShape])),
        count: Type.Integer(),
      }),
    },
    examples: {
      body: { 'two orders': { value: { orders: [SUBMISSION_EXAMPLE.value, {}] } } },
      responses: {
        200: {
          'one of two': {
            value: {
              results: [
                ACCEPTED_EXAMPLE.value,
                { error: 'order is required', code: 'MISSING_FIELD', field: 'order' },
              ],
              count: 2,
            },
          },
        },
      },
    },
    async handle({ body, deadlineAtMs }) {
      const results = await Promise.all(
        body.orders.map(async (item) => {
          const answer = submission.fits(item)
            ? await desk.place(normalised(item), deadlineAtMs)
            : submission.flaw(item)
          return isRejection(answer) ? errorOf(answer) : acceptedBody(answer)
        }),
      )
      return { status: 200, body: { results, count: results.length } }
    },
  })
}

function normalised(item: unknown): OrderSubmission {
  return (submission.normalise?.(item) ?? item) as OrderSubmission
}

function errorOf(rejection: Rejection) {
  return errorBody(rejection, sentenceOf(rejection))
}
