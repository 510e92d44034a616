/** `GET /api/v1/users/{address}/activity`: a user's trades, and what markets have paid out to them. */

import Type from 'typebox'
import { checksumAddress } from '#domain/checksum-address.ts'
import type { Address, MarketId, TradeId } from '#domain/ids.ts'
import { USER_ACTIVITY_LISTED, USER_ACTIVITY_LISTED_MAX } from '#domain/limits.ts'
import { isRejection } from '#domain/rejection.ts'
import { exactInteger } from '#http/json.ts'
import { type PagePlace, readPlace, writePlace } from '#http/page-place.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { address, safeInteger } from '#http/schemas.ts'
import { nextBefore } from '../markets/trade-shapes.ts'
import { MARKET_ID, TRADER } from '../orders/order-examples.ts'

type UserTrade = {
  readonly tradeId: TradeId
  readonly marketId: MarketId
  readonly marketQuestion: string
  readonly contractAddress: Address
  readonly buyer: Address
  readonly outcome: number
  readonly price: number
  readonly size: number
  readonly cost: number
  readonly status: string
  readonly matchedAtMs: number
  readonly txHash: string
}

type UserPayout = {
  readonly marketId: MarketId
  readonly marketQuestion: string
  readonly contractAddress: Address
  readonly winningOutcome: number
  readonly payout: bigint
  readonly txHash: string
  readonly status: string
  readonly atMs: number
}

type Page<Place> = {
  readonly user: Address
  readonly chainId: number
  readonly limit: number
  readonly before?: Place | undefined
}

type UserActivitySources = {
  readonly trades: (
    page: Page<PagePlace>,
  ) => Promise<{ trades: readonly UserTrade[]; next: PagePlace | undefined }>
  readonly payouts: (page: Page<never>) => Promise<readonly UserPayout[]>
}

const entry = {
  marketId: Type.String(),
  marketQuestion: Type.String(),
  contractAddress: Type.String(),
}

const UserTradeShape = Type.Object(
  {
    tradeId: Type.String(),
    ...entry,
    role: Type.Enum(['buyer', 'seller'], { description: 'buyer of a trade with oneself' }),
    outcome: Type.Integer({ description: '0 = YES, 1 = NO' }),
    price: Type.Integer(),
    size: Type.Integer(),
    cost: Type.Integer({ description: 'What the buyer paid, stablecoin, 6 decimals' }),
    status: Type.String({ description: 'matched, submitted, confirmed, failed or reverted' }),
    timestamp: Type.Integer({ description: 'Unix seconds' }),
    txHash: Type.String(),
  },
  { title: 'UserTrade' },
)

const UserPayoutShape = Type.Object(
  {
    ...entry,
    winningOutcome: Type.Integer({ description: '0 = YES, 1 = NO' }),
    payout: Type.Integer({ description: 'Stablecoin, 6 decimals' }),
    txHash: Type.String(),
    status: Type.String({ description: 'pending, confirmed or failed' }),
    timestamp: Type.Integer({ description: 'Unix seconds' }),
  },
  { title: 'UserPayout' },
)

export function userActivity(sources: UserActivitySources): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/users/{address}/activity',
    auth: 'public',
    cost: 'read',
    weight: 5,
    tag: 'users',
    summary: 'A user’s trades and payouts',
    description:
      'The newest first, each kind up to `limit`. `before` goes on in the trades; `settlements` ' +
      'are on the first page only.',
    cacheControl: 'no-cache',
    revalidates: true,
    params: Type.Object(
      { address: address({ description: 'The user' }) },
      { additionalProperties: false },
    ),
    query: Type.Object(
      {
        chain_id: safeInteger({ min: 1, description: 'The chain' }),
        limit: Type.Optional(
          safeInteger({
            min: 1,
            description: `How many; ${USER_ACTIVITY_LISTED} unless said, at most ${USER_ACTIVITY_LISTED_MAX}`,
          }),
        ),
        before: Type.Optional(Type.String({ description: 'Where the page before ended' })),
      },
      { additionalProperties: false },
    ),
    responses: {
      200: Type.Object({
        activity: Type.Array(UserTradeShape),
        settlements: Type.Array(UserPayoutShape),
        nextBefore,
      }),
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
      const page = { user: path.address, chainId: query.chain_id, limit }
      const [found, payouts] = await Promise.all([
        sources.trades({ ...page, before }),
        before === undefined ? sources.payouts(page) : [],
      ])
      const body = {
        activity: found.trades.map((trade) => tradeEntry(trade, path.address)),
        settlements: payouts.map(payoutEntry),
        nextBefore: writePlace(found.next),
      }
      return { status: 200, body }
    },
  })
}

function tradeEntry(trade: UserTrade, user: Address) {
  return {
    tradeId: trade.tradeId,
    marketId: trade.marketId,
    marketQuestion: trade.marketQuestion,
    contractAddress: checksumAddress(trade.contractAddress),
    role: trade.buyer === user ? ('buyer' as const) : ('seller' as const),
    outcome: trade.outcome,
    price: trade.price,
    size: trade.size,
    cost: trade.cost,
    status: trade.status,
    timestamp: Math.floor(trade.matchedAtMs / 1_000),
    txHash: trade.txHash,
  }
}

function payoutEntry(payout: UserPayout) {
  return {
    marketId: payout.marketId,
    marketQuestion: payout.marketQuestion,
    contractAddress: checksumAddress(payout.contractAddress),
    winningOutcome: payout.winningOutcome,
    payout: exactInteger(payout.payout),
    txHash: payout.txHash,
    status: payout.status,
    timestamp: Math.floor(payout.atMs / 1_000),
  }
}
