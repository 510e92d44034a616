/** `GET /api/v1/orders/{hash}`: one order, open or ended. */

import Type from 'typebox'
import { checksumAddress } from '#domain/checksum-address.ts'
import type { Address, OrderHash } from '#domain/ids.ts'
import type { EchoedTags } from '#domain/order-tags.ts'
import { reject } from '#domain/rejection.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { StoredOrder } from '#protocol/shapes/orders.ts'
import { OPEN_ORDERS_EXAMPLE } from './order-examples.ts'
import { orderHashParam } from './order-shapes.ts'

/** An order as returned by the database. */
type OrderState = Pick<
  StoredOrder,
  'orderHash' | 'marketId' | 'chainId' | 'side' | 'outcome' | 'price' | 'size' | 'status' | 'seq'
> & {
  readonly trader: Address
  readonly remaining: number
  readonly expiresAtSec: number
  readonly placedAtMs: number
  readonly updatedAtMs: number
  readonly tags: EchoedTags
}

const EXAMPLE = OPEN_ORDERS_EXAMPLE.value.orders[0]!

export function getOrder(
  find: (orderHash: OrderHash) => Promise<OrderState | undefined>,
): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/orders/{hash}',
    operationId: 'getOrder',
    auth: 'public',
    cost: 'read',
    weight: 10,
    tag: 'orders',
    summary: 'Get an order, open or ended',
    description:
      'The answer comes from the database, which is about 0.1 seconds behind the markets. During ' +
      'this time, the answer for a new order is `ORDER_NOT_FOUND`, and the answer for a changed ' +
      'order has its earlier state, with a lower `seq`. `GET /api/v1/orders` is always current.',
    cacheControl: 'no-cache',
    params: Type.Object({ hash: orderHashParam() }, { additionalProperties: false }),
    responses: { 200: StoredOrder },
    errors: ['ORDER_NOT_FOUND'],
    examples: {
      responses: {
        200: {
          'a cancelled order': {
            value: { ...EXAMPLE, status: 'cancelled', updatedAt: 1_800_000_060, seq: 18 },
          },
        },
      },
    },
    async handle({ path }) {
      const found = await find(path.hash)
      if (found === undefined) return reject('ORDER_NOT_FOUND', 'hash')
      const { remaining, expiresAtSec, placedAtMs, updatedAtMs, tags, trader, ...rest } = found
      return {
        status: 200,
        body: {
          ...rest,
          trader: checksumAddress(trader),
          remainingSize: remaining,
          filled: found.size - remaining,
          timestamp: Math.floor(placedAtMs / 1_000),
          expiration: expiresAtSec,
          updatedAt: Math.floor(updatedAtMs / 1_000),
          ...tags,
        },
      }
    },
  })
}
