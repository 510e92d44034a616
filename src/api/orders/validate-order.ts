/** `POST /api/v1/orders/validate`: returns all errors of an order in one answer; places nothing. */

import Type from 'typebox'
import { checksumAddress } from '#domain/checksum-address.ts'
import { isRejection } from '#domain/rejection.ts'
import { ERRORS, errorBody, sentenceOf } from '#http/errors.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { CheckedOrder } from '#protocol/shapes/orders.ts'
import { ORDER_HASH, SUBMISSION_EXAMPLE, TRADER } from './order-examples.ts'
import type { OrderService } from './order-service.ts'
import { OrderSubmission } from './order-shapes.ts'

export function validateOrder(service: OrderService): AnswerRoute {
  return route({
    method: 'POST',
    path: '/api/v1/orders/validate',
    operationId: 'validateOrder',
    auth: 'public',
    cost: 'write',
    tag: 'orders',
    summary: 'Check an order without placing it',
    description:
      'The answer has every error of the order, the digest that the server computed, and the address recovered ' +
      'from the signature. It also says whether the signer is the trader, a delegate or a contract account.',
    body: Type.Unknown(),
    shownBody: OrderSubmission,
    responses: {
      200: CheckedOrder,
    },
    examples: {
      body: { 'an order': SUBMISSION_EXAMPLE },
      responses: {
        200: {
          'nothing wrong': {
            value: {
              ...{ valid: true, orderHash: ORDER_HASH, recovered: TRADER, signer: 'owner' },
              errors: [],
            },
          },
          'two failures': {
            value: {
              valid: false,
              orderHash: ORDER_HASH,
              recovered: TRADER,
              signer: 'owner',
              errors: [
                {
                  error: ERRORS.EXPIRATION_TOO_SOON.sentence,
                  code: 'EXPIRATION_TOO_SOON',
                  field: 'order.expiration',
                },
                { error: 'market not found', code: 'MARKET_NOT_FOUND', field: 'order.marketId' },
              ],
            },
          },
        },
      },
    },
    async handle(request) {
      const check = await service.check(request.body, request)
      if (isRejection(check)) return check
      const { valid, orderHash, recovered, signer, errors } = check
      return {
        status: 200,
        body: {
          valid,
          orderHash,
          recovered: recovered === null ? null : checksumAddress(recovered),
          signer,
          errors: errors.map((flaw) => errorBody(flaw, sentenceOf(flaw))),
        },
      }
    },
  })
}
