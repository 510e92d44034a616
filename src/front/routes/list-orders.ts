/** `GET /api/v1/orders` and `GET /api/v1/users/{address}/orders`: a trader's open orders. */

import Type from 'typebox'
import type { MarketId } from '#domain/ids.ts'
import { isRejection } from '#domain/rejection.ts'
import { systemClock } from '#runtime/clock.ts'
import type { MarketBoard } from '../market-board.ts'
import type { MarketGateway } from '../market-gateway.ts'
import { OPEN_ORDERS_EXAMPLE } from '../order-examples.ts'
import { marketIdParam, OpenOrders, openOrdersBody } from '../order-shapes.ts'
import { type AnswerRoute, route } from '../route.ts'
import { address, safeInteger } from '../schemas.ts'

type Parts = { readonly board: MarketBoard; readonly gateway: MarketGateway }

const chainIdIn = (board: MarketBoard) => (marketId: MarketId) =>
  board.markets.get(marketId)?.market.chainId ?? 0

const responses = { 200: OpenOrders }
const examples = { responses: { 200: { 'one order': OPEN_ORDERS_EXAMPLE } } }

export function listOrders({ board, gateway }: Parts): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/orders',
    auth: 'public',
    cost: 'read',
    tag: 'orders',
    summary: 'Open orders of a trader',
    description: 'Asked of the markets themselves: an order that was accepted is in the next list.',
    query: Type.Object(
      {
        trader: address({ description: 'Whose orders' }),
        market: Type.Optional(marketIdParam()),
      },
      { additionalProperties: false },
    ),
    responses,
    examples,
    async handle({ query, deadlineAtMs }) {
      const orders = await gateway.openOrders(query.trader, query.market, leftMs(deadlineAtMs))
      if (isRejection(orders)) return orders
      return { status: 200, body: openOrdersBody(orders, chainIdIn(board)) }
    },
  })
}

export function listUserOrders({ board, gateway }: Parts): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/users/{address}/orders',
    auth: 'public',
    cost: 'read',
    tag: 'users',
    summary: 'Open orders of a user in all markets of a chain',
    params: Type.Object(
      { address: address({ description: 'The user' }) },
      { additionalProperties: false },
    ),
    query: Type.Object(
      { chain_id: safeInteger({ min: 1, description: 'The chain' }) },
      { additionalProperties: false },
    ),
    responses,
    examples,
    async handle({ path, query, deadlineAtMs }) {
      const orders = await gateway.openOrders(path.address, undefined, leftMs(deadlineAtMs))
      if (isRejection(orders)) return orders
      const chainIdOf = chainIdIn(board)
      const here = orders.filter(({ marketId }) => chainIdOf(marketId) === query.chain_id)
      return { status: 200, body: openOrdersBody(here, chainIdOf) }
    },
  })
}

function leftMs(deadlineAtMs: number): number {
  return Math.max(1, deadlineAtMs - systemClock.nowMs())
}
