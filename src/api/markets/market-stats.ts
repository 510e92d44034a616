/** `GET /api/v1/stats/{marketId}`: volume and last prices of a market. */

import Type from 'typebox'
import { checksumAddress } from '#domain/checksum-address.ts'
import type { MarketId } from '#domain/ids.ts'
import { isRejection } from '#domain/rejection.ts'
import { exactInteger } from '#http/json.ts'
import type { ReadCache } from '#http/read-cache.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import type { MarketFinder } from '#live/market-finder.ts'
import type { AnswerTo } from '#protocol/queries.ts'
import { MarketStats } from '#protocol/shapes/markets.ts'
import { MARKET_ID } from '../orders/order-examples.ts'
import { marketIdParam } from '../orders/order-shapes.ts'

export function marketStats(ports: {
  readonly find: MarketFinder
  readonly sums: (marketId: MarketId) => Promise<AnswerTo<'marketStats'>>
  readonly cache: ReadCache
}): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/stats/{marketId}',
    operationId: 'getMarketStats',
    auth: 'public',
    cost: 'read',
    tag: 'markets',
    summary: 'Get the statistics of a market',
    description:
      'The statistics include every matched trade until the chain rejects it. A failed trade is removed from the ' +
      'volume and the last price.',
    cacheControl: 'public, max-age=1',
    revalidates: true,
    params: Type.Object({ marketId: marketIdParam() }, { additionalProperties: false }),
    responses: { 200: MarketStats },
    errors: ['MARKET_NOT_FOUND'],
    examples: {
      responses: {
        200: {
          'a market that trades': {
            value: {
              marketId: MARKET_ID,
              contractAddress: '0x5FbDB2315678afecb367f032d93F642f64180aa3',
              volume24h: 1_075_000,
              totalVolume: 52_340_000,
              lastPrice: 430_000,
              lastOutcome: 0,
              lastYesPrice: 430_000,
              lastNoPrice: 560_000,
              trades24h: 1,
              totalTrades: 48,
              openInterest: 20_000_000,
            },
          },
        },
      },
    },
    handle({ path: { marketId } }) {
      return ports.cache.read(`stats/${marketId}`, async () => {
        const found = await ports.find(marketId)
        if (isRejection(found)) return found
        const sums = await ports.sums(marketId)
        return {
          marketId,
          contractAddress: checksumAddress(found.market.contractAddress),
          volume24h: exactInteger(sums.volume24h),
          totalVolume: exactInteger(sums.totalVolume),
          lastPrice: sums.lastPrice,
          lastOutcome: sums.lastOutcome,
          lastYesPrice: sums.lastPrices[0],
          lastNoPrice: sums.lastPrices[1],
          trades24h: sums.trades24h,
          totalTrades: sums.totalTrades,
          openInterest: exactInteger(sums.openInterest),
        }
      })
    },
  })
}
