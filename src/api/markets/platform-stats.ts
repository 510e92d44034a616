/** `GET /api/v1/platform/stats`: totals of the exchange, on one chain or on all. */

import Type from 'typebox'
import { isRejection, type Rejection } from '#domain/rejection.ts'
import { exactInteger } from '#http/json.ts'
import type { ReadCache } from '#http/read-cache.ts'
import type { RequestContext } from '#http/request-context.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { safeInteger } from '#http/schemas.ts'
import type { AnswerTo } from '#protocol/queries.ts'
import { PlatformStats } from '#protocol/shapes/markets.ts'

export function platformStats(ports: {
  readonly sums: (chainId: number | undefined) => Promise<AnswerTo<'chainStats'>>
  /** Returns the number of resting orders by chain. */
  readonly openOrders: (context: RequestContext) => Promise<ReadonlyMap<number, number> | Rejection>
  readonly cache: ReadCache
}): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/platform/stats',
    operationId: 'getPlatformStats',
    auth: 'public',
    cost: 'read',
    tag: 'markets',
    summary: 'Get the statistics of the exchange',
    description:
      'The statistics include quick markets. All values are 0 for a chain without markets.',
    cacheControl: 'public, max-age=1',
    revalidates: true,
    query: Type.Object(
      {
        chain_id: Type.Optional(
          safeInteger({ min: 1, description: 'Chain id; all chains by default' }),
        ),
      },
      { additionalProperties: false },
    ),
    responses: { 200: PlatformStats },
    examples: {
      responses: {
        200: {
          'all chains': {
            value: {
              chainId: null,
              totalMarkets: 12,
              activeMarkets: 5,
              resolvedMarkets: 6,
              totalVolume: 152_340_000,
              volume24h: 1_075_000,
              totalTrades: 311,
              trades24h: 1,
              totalTraders: 42,
              openOrders: 17,
              openInterest: 64_000_000,
            },
          },
        },
      },
    },
    handle(request) {
      const chainId = request.query.chain_id
      return ports.cache.read(`platform/${chainId ?? ''}`, async () => {
        const [sums, orders] = await Promise.all([ports.sums(chainId), ports.openOrders(request)])
        if (isRejection(orders)) return orders
        const counted = chainId === undefined ? [...orders.values()] : [orders.get(chainId) ?? 0]
        return {
          chainId: chainId ?? null,
          totalMarkets: sums.totalMarkets,
          activeMarkets: sums.activeMarkets,
          resolvedMarkets: sums.resolvedMarkets,
          totalVolume: exactInteger(sums.totalVolume),
          volume24h: exactInteger(sums.volume24h),
          totalTrades: sums.totalTrades,
          trades24h: sums.trades24h,
          totalTraders: sums.totalTraders,
          openOrders: counted.reduce((sum, count) => sum + count, 0),
          openInterest: exactInteger(sums.openInterest),
        }
      })
    },
  })
}
