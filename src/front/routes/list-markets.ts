/** `GET /api/v1/markets`: the markets of the exchange, with the best YES ask of this moment. */

import Type, { type Static } from 'typebox'
import { checksumAddress } from '#domain/checksum-address.ts'
import { CATEGORIES } from '#domain/market.ts'
import { YES } from '#domain/order.ts'
import { reject } from '#domain/rejection.ts'
import type { MarketBoard, ShownMarket } from '../market-board.ts'
import { MARKET_ID, TRADER } from '../order-examples.ts'
import { type AnswerRoute, route } from '../route.ts'
import { flag, safeInteger } from '../schemas.ts'

export const MarketShape = Type.Object(
  {
    id: Type.String(),
    question: Type.String(),
    description: Type.String(),
    category: Type.Enum([...CATEGORIES]),
    contractAddress: Type.String(),
    maker: Type.String(),
    expiration: Type.Integer({ description: 'Unix seconds' }),
    chainId: Type.Integer(),
    resolved: Type.Boolean(),
    bestAskPrice: Type.Integer({ description: 'Best YES ask, 6 decimals; 0 when there is none' }),
    createdAt: Type.Integer({ description: 'Unix seconds' }),
  },
  { title: 'Market' },
)

export function marketBody({ market, closed, books }: ShownMarket): Static<typeof MarketShape> {
  return {
    id: market.id,
    question: market.question,
    description: market.description,
    category: market.category,
    contractAddress: checksumAddress(market.contractAddress),
    maker: checksumAddress(market.maker),
    expiration: market.expiration,
    chainId: market.chainId,
    resolved: closed === 'resolved',
    bestAskPrice: books[YES].bestAsk,
    createdAt: market.createdAt,
  }
}

export function listMarkets(board: MarketBoard): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/markets',
    auth: 'public',
    cost: 'read',
    tag: 'markets',
    summary: 'All markets',
    description: 'Quick markets are left out unless `quick=true`. Oldest first.',
    query: Type.Object(
      {
        chain_id: Type.Optional(safeInteger({ min: 1, description: 'Only of this chain' })),
        quick: Type.Optional(flag({ description: 'Quick markets too' })),
      },
      { additionalProperties: false },
    ),
    responses: { 200: Type.Object({ markets: Type.Array(MarketShape), count: Type.Integer() }) },
    examples: {
      responses: {
        200: {
          'one market': {
            value: {
              markets: [
                {
                  id: MARKET_ID,
                  question: 'Will it rain in Delphi tomorrow?',
                  description: 'Resolves YES if any rain is measured.',
                  category: 'general',
                  contractAddress: '0x5FbDB2315678afecb367f032d93F642f64180aa3',
                  maker: TRADER,
                  expiration: 1_900_000_000,
                  chainId: 31_337,
                  resolved: false,
                  bestAskPrice: 430_000,
                  createdAt: 1_800_000_000,
                },
              ],
              count: 1,
            },
          },
        },
      },
    },
    handle({ query }) {
      if (!board.isWhole()) return reject('OVERLOADED')
      const shown = [...board.markets.values()]
        .filter(({ market }) => query.quick === true || !market.quick)
        .filter(({ market }) => query.chain_id === undefined || market.chainId === query.chain_id)
        .sort(
          (a, b) => a.market.createdAt - b.market.createdAt || (a.market.id < b.market.id ? -1 : 1),
        )
      return { status: 200, body: { markets: shown.map(marketBody), count: shown.length } }
    },
  })
}
