/** `GET /api/v1/candles/{marketId}`: prices of an outcome over time. */

import Type from 'typebox'
import { CANDLES_LISTED_MAX } from '#domain/limits.ts'
import { isRejection, reject } from '#domain/rejection.ts'
import { exactInteger } from '#http/json.ts'
import type { ReadCache } from '#http/read-cache.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { oneOf, safeInteger } from '#http/schemas.ts'
import type { MarketFinder } from '#live/market-finder.ts'
import type { AnswerTo, QueryOf } from '#protocol/queries.ts'
import { MarketCandles } from '#protocol/shapes/markets.ts'
import type { Clock } from '#runtime/clock.ts'
import { MARKET_ID } from '../orders/order-examples.ts'
import { marketIdParam } from '../orders/order-shapes.ts'
import { OUTCOME_OF, outcomeParam } from './outcome-param.ts'

const INTERVALS = { '1m': 60, '5m': 300, '15m': 900, '1h': 3_600, '4h': 14_400, '1d': 86_400 }
const NAMES = ['1m', '5m', '15m', '1h', '4h', '1d'] as const
/**
 * Latest accepted time in Unix seconds: later than any sensible request, and far below the limit of
 * exact integers.
 */
const SECONDS_MAX = 99_999_999_999

const instant = (description: string) =>
  Type.Optional(safeInteger({ min: 0, max: SECONDS_MAX, description }))

/** Example of an answer. */
const ONE_HOUR = {
  marketId: MARKET_ID,
  outcome: 0,
  interval: '1h',
  candles: [
    {
      timestamp: 1_799_996_400,
      open: 410_000,
      high: 440_000,
      low: 400_000,
      close: 430_000,
      volume: 12_900_000,
      trades: 9,
    },
  ],
  count: 1,
  nextTo: null,
}

export function candles(ports: {
  readonly find: MarketFinder
  readonly candles: (query: QueryOf<'candles'>) => Promise<AnswerTo<'candles'>>
  readonly cache: ReadCache
  readonly clock: Pick<Clock, 'nowMs'>
}): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/candles/{marketId}',
    operationId: 'listCandles',
    auth: 'public',
    cost: 'read',
    weight: 3,
    tag: 'markets',
    summary: 'List the prices of an outcome over time, as candles',
    description:
      'Each candle has the open, high, low and close price of one interval. An interval without ' +
      'trades has no candle, and failed trades do not count. The list is sorted oldest first. It ' +
      `covers at most the last ${CANDLES_LISTED_MAX} intervals up to \`to\`, even if \`from\` is ` +
      'missing or earlier. For earlier candles, send the value of `nextTo` as `to`. `to` is the ' +
      'current time by default.',
    cacheControl: 'public, max-age=1',
    revalidates: true,
    params: Type.Object({ marketId: marketIdParam() }, { additionalProperties: false }),
    query: Type.Object(
      {
        outcome: Type.Optional(outcomeParam('Outcome; `YES` by default')),
        interval: Type.Optional(
          oneOf(NAMES, { description: 'Length of a candle; `1h` by default' }),
        ),
        from: instant('Start of the time range, in Unix seconds'),
        to: instant('End of the time range, in Unix seconds; the current time by default'),
      },
      { additionalProperties: false },
    ),
    responses: {
      200: MarketCandles,
    },
    errors: ['MARKET_NOT_FOUND'],
    examples: {
      responses: {
        200: {
          'one hour': { value: ONE_HOUR },
        },
      },
    },
    handle({ path: { marketId }, query }) {
      const interval = query.interval ?? '1h'
      const intervalSec = INTERVALS[interval]
      const outcome = OUTCOME_OF[query.outcome ?? 'YES']
      const nowSec = Math.floor(ports.clock.nowMs() / 1_000)
      const startOf = (sec: number) => sec - (sec % intervalSec)
      const lastSec = query.to ?? nowSec
      if (query.from !== undefined && query.from > lastSec) {
        return reject('INVALID_FIELD', 'from', 'from must not be later than to')
      }
      const toSec = startOf(lastSec)
      const asked = query.from === undefined ? undefined : startOf(query.from)
      const reach = Math.max(0, toSec - (CANDLES_LISTED_MAX - 1) * intervalSec)
      const fromSec = Math.max(asked ?? 0, reach)
      const key = `candles/${marketId}/${outcome}/${interval}/${fromSec}/${toSec}/${asked}`
      return ports.cache.read(key, async () => {
        const found = await ports.find(marketId)
        if (isRejection(found)) return found
        const stored = await ports.candles({ marketId, outcome, intervalSec, fromSec, toSec })
        const list = stored.map(({ startSec, volume, ...rest }) => ({
          timestamp: startSec,
          ...rest,
          volume: exactInteger(volume),
        }))
        const earliest = asked ?? startOf(found.market.createdAt)
        return {
          marketId,
          outcome,
          interval,
          candles: list,
          count: list.length,
          nextTo: fromSec > earliest ? fromSec - 1 : null,
        }
      })
    },
  })
}
