/**
 * `GET /api/v1/transparency/signatures`: signatures and expired permits of orders that have ended. The public log
 * contains only the hashes of signatures and permits.
 */

import Type from 'typebox'
import type { OrderHash } from '#domain/ids.ts'
import { PERMIT_HIDDEN_SEC, SIGNATURES_LISTED_MAX } from '#domain/limits.ts'
import type { PermitSignature } from '#domain/order.ts'
import { reject } from '#domain/rejection.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { SignaturesAnswer } from '#protocol/shapes/transparency.ts'
import { ORDER_HASH } from '../orders/order-examples.ts'

type RevealedOrder = {
  readonly orderHash: OrderHash
  readonly signature: string
  readonly permit?: PermitSignature
}

const HASH = /^0x[0-9a-f]{64}$/

/**
 * Returns the route. From the given orders, `ended` returns those that are no longer open, and leaves out permits that
 * are still valid.
 */
export function signatures(
  ended: (orderHashes: readonly OrderHash[]) => Promise<readonly RevealedOrder[]>,
): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/transparency/signatures',
    operationId: 'listSignatures',
    ...{ auth: 'public', cost: 'read', weight: 10, tag: 'transparency' },
    summary: 'List the signatures of ended orders',
    description:
      'The public log has only the SHA-256 of each signature and permit. This request returns ' +
      'the signatures and permits of orders that have ended. The answer leaves out orders that ' +
      `are open or unknown. It leaves out a permit until ${PERMIT_HIDDEN_SEC / 60} minutes after ` +
      'the permit’s deadline, because any account could submit the permit to the chain before ' +
      'that.',
    query: Type.Object(
      {
        orders: Type.String({
          description: `Hashes of at most ${SIGNATURES_LISTED_MAX} orders, in lower case, separated by commas`,
          maxLength: SIGNATURES_LISTED_MAX * (2 + 64 + 1),
        }),
      },
      { additionalProperties: false },
    ),
    responses: { 200: SignaturesAnswer },
    examples: {
      responses: {
        200: {
          'one order': {
            value: { orders: [{ orderHash: ORDER_HASH, signature: `0x${'5c'.repeat(64)}1b` }] },
          },
        },
      },
    },
    errors: ['INVALID_FIELD'],
    async handle({ query }) {
      const hashes = query.orders.split(',')
      if (hashes.length > SIGNATURES_LISTED_MAX || !hashes.every((hash) => HASH.test(hash))) {
        const detail = `orders must be 1 to ${SIGNATURES_LISTED_MAX} order hashes, separated by commas`
        return reject('INVALID_FIELD', 'orders', detail)
      }
      const found = await ended([...new Set(hashes)] as OrderHash[])
      return {
        status: 200,
        body: {
          orders: found.map(({ orderHash, signature, permit }) => ({
            ...{ orderHash, signature },
            ...(permit === undefined ? {} : { permit: { ...permit } }),
          })),
        },
      }
    },
  })
}
