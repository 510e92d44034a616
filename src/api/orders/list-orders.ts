/** `GET /api/v1/orders` and `GET /api/v1/users/{address}/orders`: a trader's open orders. */

import Type from 'typebox'
import type { Address, MarketId } from '#domain/ids.ts'
import { OPEN_ORDERS_LISTED_MAX as ORDERS_MAX } from '#domain/limits.ts'
import { isRejection } from '#domain/rejection.ts'
import type { RequestContext } from '#http/request-context.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { address, safeInteger } from '#http/schemas.ts'
import type { MarketBoard } from '#live/market-board.ts'
import type { MarketGateway } from '#live/market-gateway.ts'
import { OpenOrders } from '#protocol/shapes/orders.ts'
import { OPEN_ORDERS_EXAMPLE } from './order-examples.ts'
import { marketIdParam, minSeqParam, openOrdersBody, readOrderPlace } from './order-shapes.ts'

type Ports = { readonly board: MarketBoard; readonly gateway: MarketGateway }

const page = {
  limit: Type.Optional(
    safeInteger({
      min: 1,
      max: ORDERS_MAX,
      description: `Maximum number of orders on a page; ${ORDERS_MAX} by default`,
    }),
  ),
  cursor: Type.Optional(
    Type.String({ description: 'Value of `nextCursor` from the previous page' }),
  ),
}
const description =
  'The answer comes directly from the markets, so it includes every accepted order. The oldest orders come ' +
  'first. `nextCursor` is the cursor of the next page, and `count` is the total number of orders.'
const responses = { 200: OpenOrders }
const examples = { responses: { 200: { 'one order': OPEN_ORDERS_EXAMPLE } } }

type Asked = {
  readonly trader: Address
  readonly marketId?: MarketId
  readonly chainId?: number
}

async function answerPage(
  { board, gateway }: Ports,
  asked: Asked,
  { limit = ORDERS_MAX, cursor }: { readonly limit?: number; readonly cursor?: string },
  context: RequestContext,
) {
  const place = readOrderPlace(cursor)
  if (isRejection(place)) return place
  const found = await gateway.openOrdersPage({ ...asked, ...place, limit }, context)
  if (isRejection(found)) return found
  const chainIdOf = (marketId: MarketId) => board.markets.get(marketId)?.market.chainId ?? 0
  const { orders, count } = found
  return { status: 200 as const, body: openOrdersBody(orders, { count, limit }, chainIdOf) }
}

export function listOrders(ports: Ports): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/orders',
    operationId: 'listOrders',
    auth: 'public',
    cost: 'read',
    weight: 2,
    tag: 'orders',
    summary: 'List the open orders of a trader',
    description,
    query: Type.Object(
      {
        trader: address({ description: 'Address of the trader' }),
        market: Type.Optional(marketIdParam()),
        minSeq: minSeqParam(),
        ...page,
      },
      { additionalProperties: false },
    ),
    responses,
    examples,
    handle(request) {
      // `minSeq` is ignored: open orders come directly from the market thread, which has every acknowledged write, so
      // no wait is needed.
      const { trader, market, minSeq: _, ...which } = request.query
      const asked = market === undefined ? { trader } : { trader, marketId: market }
      return answerPage(ports, asked, which, request)
    },
  })
}

export function listUserOrders(ports: Ports): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/users/{address}/orders',
    operationId: 'listUserOrders',
    auth: 'public',
    cost: 'read',
    weight: 2,
    tag: 'users',
    summary: 'List the open orders of a user in all markets of a chain',
    description,
    params: Type.Object(
      { address: address({ description: 'Address of the user' }) },
      { additionalProperties: false },
    ),
    query: Type.Object(
      { chain_id: safeInteger({ min: 1, description: 'Chain id' }), ...page },
      { additionalProperties: false },
    ),
    responses,
    examples,
    handle(request) {
      const { chain_id, ...which } = request.query
      const asked = { trader: request.path.address, chainId: chain_id }
      return answerPage(ports, asked, which, request)
    },
  })
}
