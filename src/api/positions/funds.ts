/** `GET /api/v1/users/{address}/funds`: a trader's funds, the reserved part, and the free part. */

import Type from 'typebox'
import { isRejection, reject } from '#domain/rejection.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { address, safeInteger } from '#http/schemas.ts'
import { fundsBody } from '#live/funds-body.ts'
import type { FundsGateway } from '#live/funds-gateway.ts'
import { Funds } from '#protocol/shapes/users.ts'

/**
 * Returns the route. If there is no gateway, the exchange reserves no funds, and the route answers
 * `NOT_FOUND`.
 */
export function userFunds(
  gateway: Pick<FundsGateway, 'funds'> | undefined,
  chainIds: ReadonlySet<number>,
): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/users/{address}/funds',
    operationId: 'getFunds',
    auth: 'public',
    cost: 'read',
    tag: 'users',
    summary: 'Get the funds of a trader on a chain, and how much of them is reserved',
    description:
      'This request works only if the exchange reserves funds (`risk.funds` of `/api/v1/config` ' +
      'is `reserve`). For each token, the answer has the balance, the allowance, the reserved ' +
      'amounts and the amount that is left (`free`). The exchange rejects an order without a ' +
      'permit if the order needs more than `free`.',
    params: Type.Object(
      { address: address({ description: 'Address of the trader' }) },
      { additionalProperties: false },
    ),
    query: Type.Object(
      { chain_id: safeInteger({ min: 1, description: 'Chain id' }) },
      { additionalProperties: false },
    ),
    responses: { 200: Funds },
    errors: ['NOT_FOUND', 'CHAIN_UNAVAILABLE', 'OVERLOADED'],
    examples: {
      responses: {
        200: {
          'one open buy': {
            value: {
              chainId: 31_337,
              trader: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
              blockNumber: 42,
              tokens: [
                {
                  token: 'stablecoin',
                  held: '100000000',
                  allowed: '100000000',
                  reservedForOrders: '4210000',
                  reservedForTrades: '0',
                  free: '95790000',
                },
              ],
            },
          },
        },
      },
    },
    async handle(request) {
      const { chain_id: chainId } = request.query
      if (gateway === undefined) {
        return reject(
          'NOT_FOUND',
          undefined,
          'this exchange does not reserve funds (risk.funds of GET /api/v1/config is off)',
        )
      }
      if (!chainIds.has(chainId)) {
        return reject('NOT_FOUND', 'chain_id', `chain ${chainId} is not a chain of this exchange`)
      }
      const view = await gateway.funds(chainId, request.path.address, request)
      return isRejection(view) ? view : { status: 200, body: fundsBody(view) }
    },
  })
}
