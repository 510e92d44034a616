/**
 * Positions: `GET /api/v1/positions/{marketAddress}`, `GET /api/v1/users/{address}/positions`,
 * `GET /api/v1/holders/{marketId}` and `POST /api/v1/positions/{marketId}/sync`.
 */

import Type from 'typebox'
import { checksumAddress } from '#domain/checksum-address.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import { HOLDERS_LISTED_MAX, POSITIONS_LISTED_MAX } from '#domain/limits.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import { exactInteger } from '#http/json.ts'
import type { ReadCache } from '#http/read-cache.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { address, marketName, safeInteger } from '#http/schemas.ts'
import type { MarketFinder } from '#live/market-finder.ts'
import {
  MarketHolders,
  Position as PositionAnswer,
  SyncedPosition,
  UserPositions,
} from '#protocol/shapes/users.ts'
import { MARKET_ID, TRADER } from '../orders/order-examples.ts'
import { marketIdParam } from '../orders/order-shapes.ts'
import {
  type MarketName,
  type Position,
  type PositionRequest,
  positionBody,
  type UserPositionsPage,
} from './user-pages.ts'

export type PositionSources = {
  /** Returns a user's position in a market, as JSON. */
  readonly positionJson: (asked: PositionRequest) => Promise<string>
  /** Returns a page of a user's positions on a chain, as JSON. */
  readonly positionsPage: (asked: UserPositionsPage) => Promise<string>
  readonly holders: (
    marketId: MarketId,
    limit: number,
  ) => Promise<{ top: readonly (Position & { readonly holder: Address })[]; total: number }>
}

const closed = { additionalProperties: false } as const
const POSITION_EXAMPLE = {
  yesShares: 2_500_000,
  noShares: 0,
  totalInvested: 1_075_000,
  yesCost: 1_075_000,
  noCost: 0,
}

const chainOfContract = {
  chain_id: Type.Optional(
    safeInteger({
      min: 1,
      description:
        'Chain of the contract; needed only if several chains have a market with this address',
    }),
  ),
}

/** Returns the market named in the path. If the path has a contract address, adds the chain from the query. */
function namedMarket(name: MarketName, chainId: number | undefined): MarketName {
  return 'marketId' in name ? name : { ...name, chainId }
}

const ACCOUNTING =
  'The numbers of shares come from the chain, from the newest block that has the configured ' +
  'number of confirmations. After `syncPosition`, they come from the newer block that this ' +
  'operation has read. ' +
  'The cost of shares is what the user paid for them in trades. When shares leave the account, ' +
  'their part of the cost leaves, too: after half of the shares has left, half of the cost ' +
  'remains. A split exchanges stablecoin for shares of both outcomes; half of its amount is the ' +
  'cost of each outcome.'

const REALISED =
  '`realisedProfit` is the income from shares that left the account, minus the cost of these ' +
  'shares. This cost is computed from the average cost of all shares of the outcome. The profit ' +
  'of a market is the sum over both outcomes. The income from a sale is its price. The income ' +
  'from a merge or redemption is the stablecoin that the contract paid. Shares given away bring ' +
  'no income, so their cost is a loss. Shares received as a gift cost nothing. The cost of ' +
  'shares that leave is rounded down to 0.000001, and the difference stays in the cost of the ' +
  'remaining shares. So the profit always equals the money taken out of the market, minus the ' +
  'money put in, plus `totalInvested`. A trade counts once it is settled on the chain. A sync ' +
  'does not change the profit. Besides `realisedProfit` of each position, the answer has a total ' +
  '`realisedProfit`. The total covers all markets of the chain, including markets in which the ' +
  'user has no shares left.'

export function getPosition({ positionJson }: PositionSources): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/positions/{marketAddress}',
    operationId: 'getPosition',
    auth: 'public',
    cost: 'read',
    weight: 2,
    tag: 'positions',
    summary: 'Get the position of a user in a market',
    description: `${ACCOUNTING} The answer for an empty position has only \`yesShares\` and \`noShares\`, both 0.`,
    cacheControl: 'no-cache',
    revalidates: true,
    params: Type.Object(
      {
        marketAddress: marketName({
          description: 'Address of the market’s contract, or id of the market',
        }),
      },
      closed,
    ),
    query: Type.Object(
      { user: address({ description: 'Address of the user' }), ...chainOfContract },
      closed,
    ),
    responses: { 200: PositionAnswer },
    examples: {
      responses: {
        200: {
          'a position': { value: POSITION_EXAMPLE },
          'no position': { value: { yesShares: 0, noShares: 0 } },
        },
      },
    },
    async handle({ path, query }) {
      const market = namedMarket(path.marketAddress, query.chain_id)
      return { status: 200, raw: await positionJson({ market, user: query.user }) }
    },
  })
}

export function listPositions({ positionsPage }: PositionSources): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/users/{address}/positions',
    operationId: 'listPositions',
    auth: 'public',
    cost: 'read',
    weight: 2,
    tag: 'users',
    summary: 'List the positions of a user on a chain',
    description:
      `${ACCOUNTING} ${REALISED} The list is sorted by market id and has at most ${POSITIONS_LISTED_MAX} ` +
      'positions per page.',
    cacheControl: 'no-cache',
    revalidates: true,
    params: Type.Object({ address: address({ description: 'Address of the user' }) }, closed),
    query: Type.Object(
      {
        chain_id: safeInteger({ min: 1, description: 'Chain id' }),
        limit: Type.Optional(
          safeInteger({
            min: 1,
            description: `Maximum number of positions on a page; ${POSITIONS_LISTED_MAX} by default, which is the highest value`,
          }),
        ),
        cursor: Type.Optional(marketIdParam()),
      },
      closed,
    ),
    responses: {
      200: UserPositions,
    },
    examples: {
      responses: {
        200: {
          'one position': {
            value: {
              positions: [
                {
                  marketId: MARKET_ID,
                  marketQuestion: 'Will it rain in Delphi tomorrow?',
                  contractAddress: '0x5FbDB2315678afecb367f032d93F642f64180aa3',
                  ...POSITION_EXAMPLE,
                  realisedProfit: 150_000,
                  expiration: 1_900_000_000,
                  resolved: false,
                },
              ],
              count: 1,
              realisedProfit: -2_350_000,
              nextCursor: null,
            },
          },
        },
      },
    },
    async handle({ path, query }) {
      const limit = Math.min(query.limit ?? POSITIONS_LISTED_MAX, POSITIONS_LISTED_MAX)
      const asked = { user: path.address, chainId: query.chain_id, limit, after: query.cursor }
      return { status: 200, raw: await positionsPage(asked) }
    },
  })
}

export function listHolders(
  { holders }: PositionSources,
  ports: { readonly find: MarketFinder; readonly cache: ReadCache },
): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/holders/{marketId}',
    operationId: 'listHolders',
    auth: 'public',
    cost: 'read',
    weight: 2,
    tag: 'markets',
    summary: 'List the largest holders of a market',
    description:
      `The answer has the ${HOLDERS_LISTED_MAX} addresses with the most shares, counting both ` +
      'outcomes, and the total number of holders.',
    cacheControl: 'public, max-age=1',
    revalidates: true,
    params: Type.Object({ marketId: marketIdParam() }, closed),
    responses: {
      200: MarketHolders,
    },
    errors: ['MARKET_NOT_FOUND'],
    examples: {
      responses: {
        200: {
          'one holder': {
            value: {
              marketId: MARKET_ID,
              topHolders: [
                {
                  address: TRADER,
                  yesShares: 2_500_000,
                  noShares: 1_000_000,
                  totalShares: 3_500_000,
                  totalInvested: 1_575_000,
                },
              ],
              totalHolders: 1,
            },
          },
        },
      },
    },
    handle({ path: { marketId } }) {
      return ports.cache.read(
        `holders/${marketId}`,
        async (): Promise<MarketHolders | Rejection> => {
          const found = await ports.find(marketId)
          if (isRejection(found)) return found
          const { top, total } = await holders(marketId, HOLDERS_LISTED_MAX)
          return {
            marketId,
            topHolders: top.map(({ holder, yesShares, noShares, yesCost, noCost }) => ({
              address: checksumAddress(holder),
              yesShares: exactInteger(yesShares),
              noShares: exactInteger(noShares),
              totalShares: exactInteger(yesShares + noShares),
              totalInvested: exactInteger(yesCost + noCost),
            })),
            totalHolders: total,
          }
        },
      )
    },
  })
}

export type Synced = {
  readonly position: Position | undefined
  readonly blockNumber: number
  readonly blockHash: string
  readonly atMs: number
}

export function syncPosition(
  sync: (market: MarketName, user: Address) => Promise<Synced | Rejection>,
): AnswerRoute {
  return route({
    method: 'POST',
    path: '/api/v1/positions/{marketId}/sync',
    operationId: 'syncPosition',
    auth: 'write',
    cost: 'write',
    tag: 'positions',
    summary: 'Sync a position from the chain',
    description:
      'The exchange reads the user’s balances at the newest block of the chain and returns them ' +
      'with the number and hash of the block. It does not wait for confirmations of the block. ' +
      'From then on, the user’s positions show these balances, until the indexer of the exchange ' +
      'has read the same block, or has detected that the chain replaced it (a reorg). Lists of ' +
      'holders and totals show only what the indexer has read. For shares that have left the ' +
      'account, the cost is reduced in proportion. Shares that the indexer has not read yet have ' +
      'no cost. If the chain cannot be read, the answer is 503. `userAddress` is a field of the ' +
      'body, or a parameter of the query.',
    params: Type.Object(
      { marketId: marketName({ description: 'Id of the market, or address of its contract' }) },
      closed,
    ),
    query: Type.Object(
      {
        userAddress: Type.Optional(address({ description: 'Address of the user' })),
        ...chainOfContract,
      },
      closed,
    ),
    body: Type.Object(
      { userAddress: Type.Optional(address({ description: 'Address of the user' })) },
      closed,
    ),
    bodyOptional: true,
    shownBody: Type.Object(
      { userAddress: address({ description: 'Address of the user' }) },
      closed,
    ),
    responses: { 200: SyncedPosition },
    errors: ['MARKET_NOT_FOUND', 'CHAIN_UNAVAILABLE', 'MISSING_FIELD'],
    examples: {
      body: { 'one user': { value: { userAddress: TRADER } } },
      responses: {
        200: {
          synced: {
            value: {
              ...POSITION_EXAMPLE,
              synced: true,
              syncedAt: 1_800_000_000,
              blockNumber: 1_234,
              blockHash: `0x${'5c'.repeat(32)}`,
            },
          },
        },
      },
    },
    async handle({ path, query, body }) {
      const user = body?.userAddress ?? query.userAddress
      if (user === undefined) return reject('MISSING_FIELD', 'userAddress')
      if (query.userAddress !== undefined && query.userAddress !== user) {
        return reject(
          'INVALID_FIELD',
          'userAddress',
          'userAddress must be the same in the body and in the query',
        )
      }
      const synced = await sync(namedMarket(path.marketId, query.chain_id), user)
      if (isRejection(synced)) return synced
      const { position, atMs, ...block } = synced
      const syncedAt = Math.floor(atMs / 1_000)
      return {
        status: 200,
        body: { ...positionBody(position), synced: true as const, syncedAt, ...block },
      }
    },
  })
}
