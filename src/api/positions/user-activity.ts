/**
 * `GET /api/v1/users/{address}/activity`: a user's trades, and the payouts that the user received from resolved
 * markets.
 */

import Type from 'typebox'
import { USER_ACTIVITY_LISTED, USER_ACTIVITY_LISTED_MAX } from '#domain/limits.ts'
import { isRejection } from '#domain/rejection.ts'
import { readPlace } from '#http/page-place.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { address, safeInteger } from '#http/schemas.ts'
import { ActivityPage } from '#protocol/shapes/users.ts'
import { MARKET_ID, ORDER_HASH, TRADER } from '../orders/order-examples.ts'
import type { UserActivityPage } from './user-pages.ts'

/** Returns the route; `page` returns a page of activity as JSON. */
export function userActivity(page: (asked: UserActivityPage) => Promise<string>): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/users/{address}/activity',
    operationId: 'listUserActivity',
    auth: 'public',
    cost: 'read',
    weight: 5,
    tag: 'users',
    summary: 'List the trades and payouts of a user',
    description:
      'The answer has two lists: `activity` has the user’s trades, and `settlements` has the ' +
      'payouts that the user received from resolved markets. Both lists are newest first and ' +
      'have at most `limit` entries. A request with `before` returns earlier trades, and no ' +
      'payouts.',
    cacheControl: 'no-cache',
    revalidates: true,
    params: Type.Object(
      { address: address({ description: 'Address of the user' }) },
      { additionalProperties: false },
    ),
    query: Type.Object(
      {
        chain_id: safeInteger({ min: 1, description: 'Chain id' }),
        limit: Type.Optional(
          safeInteger({
            min: 1,
            description:
              `Maximum number of trades, and of payouts; ${USER_ACTIVITY_LISTED} by default, at most ` +
              `${USER_ACTIVITY_LISTED_MAX}`,
          }),
        ),
        before: Type.Optional(
          Type.String({ description: 'Value of `nextBefore` from the previous page' }),
        ),
      },
      { additionalProperties: false },
    ),
    responses: {
      200: ActivityPage,
    },
    examples: {
      responses: {
        200: {
          'a trade and a payout': {
            value: {
              activity: [
                {
                  tradeId: `${MARKET_ID}-17-0`,
                  marketId: MARKET_ID,
                  marketQuestion: 'Will it rain in Delphi tomorrow?',
                  contractAddress: '0x5FbDB2315678afecb367f032d93F642f64180aa3',
                  role: 'buyer',
                  outcome: 0,
                  price: 430_000,
                  size: 2_500_000,
                  cost: 1_075_000,
                  status: 'confirmed',
                  timestamp: 1_800_000_000,
                  txHash: `0x${'7c'.repeat(32)}`,
                  orderHash: ORDER_HASH,
                  takerSide: 0,
                  label: 'quote 17',
                },
              ],
              settlements: [
                {
                  marketId: MARKET_ID,
                  marketQuestion: 'Will it rain in Delphi tomorrow?',
                  contractAddress: TRADER,
                  winningOutcome: 0,
                  payout: 2_500_000,
                  txHash: `0x${'7d'.repeat(32)}`,
                  status: 'confirmed',
                  timestamp: 1_800_090_000,
                },
              ],
              nextBefore: null,
            },
          },
        },
      },
    },
    async handle({ path, query }) {
      const before = readPlace(query.before)
      if (isRejection(before)) return before
      const limit = Math.min(query.limit ?? USER_ACTIVITY_LISTED, USER_ACTIVITY_LISTED_MAX)
      const asked = { user: path.address, chainId: query.chain_id, limit, before }
      return { status: 200, raw: await page(asked) }
    },
  })
}
