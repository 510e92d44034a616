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
      description: 'The chain of the contract, if the same address is a market on several chains',
    }),
  ),
}

/** Returns the market named in the path, and the chain named in the query, if any. */
function namedMarket(name: MarketName, chainId: number | undefined): MarketName {
  return 'marketId' in name ? name : { ...name, chainId }
}

const ACCOUNTING =
  'Shares are read from the chain after the configured confirmations, or from a sync that is ' +
  'newer. Cost is computed from trades: a purchase adds its price, shares that leave take their ' +
  'proportion of the cost with them, and a split costs half per side.'

const REALISED =
  '`realisedProfit` is the income from shares that left, less their cost. The method is average ' +
  'cost, per market, over both outcomes together. A sale brings its price; a merge and a ' +
  'redemption bring the collateral. Shares given away bring nothing, so their cost is a loss; ' +
  'shares received as a gift cost nothing. The cost of a part is rounded down to 0.000001, and the ' +
  'rounding difference stays in the cost of the rest: the profit always equals all money out of ' +
  'the market, less all money in, plus `totalInvested`. Trades count once they are settled on the ' +
  'chain; a sync does not change the profit. `realisedProfit` outside of the list covers all ' +
  'markets of the chain, including those in which the user has no shares left.'

export function getPosition({ positionJson }: PositionSources): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/positions/{marketAddress}',
    operationId: 'getPosition',
    auth: 'public',
    cost: 'read',
    weight: 2,
    tag: 'positions',
    summary: 'Position of a user in a market',
    description: `${ACCOUNTING} An empty position has only \`yesShares\` and \`noShares\`, both 0.`,
    cacheControl: 'no-cache',
    revalidates: true,
    params: Type.Object(
      { marketAddress: marketName({ description: 'The market’s contract, or its id' }) },
      closed,
    ),
    query: Type.Object({ user: address({ description: 'The user' }), ...chainOfContract }, closed),
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
    summary: 'Positions of a user on a chain',
    description: `${ACCOUNTING} ${REALISED} Sorted by market id, up to ${POSITIONS_LISTED_MAX} at once.`,
    cacheControl: 'no-cache',
    revalidates: true,
    params: Type.Object({ address: address({ description: 'The user' }) }, closed),
    query: Type.Object(
      {
        chain_id: safeInteger({ min: 1, description: 'The chain' }),
        limit: Type.Optional(
          safeInteger({
            min: 1,
            description: `Positions per page; ${POSITIONS_LISTED_MAX} by default, which is the maximum`,
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
    summary: 'Largest holders of a market',
    description:
      `The ${HOLDERS_LISTED_MAX} largest holders by shares of both outcomes together, and the number ` +
      'of all holders.',
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
      'Reads the balances at the newest block of the chain, without waiting for confirmations or the ' +
      'indexer, and returns them with that block. Until the indexer has passed that block, the user’s ' +
      'positions show them too; a reorg that the indexer sees discards them. Lists of holders and ' +
      'totals stay at the indexed block. The cost of shares that have left is removed with them, and ' +
      'shares that the indexer has not seen yet have no cost. Answers 503 if the chain cannot be read. ' +
      '`userAddress` belongs in the body; the server also accepts it in the query instead.',
    params: Type.Object(
      { marketId: marketName({ description: 'The market’s id, or its contract' }) },
      closed,
    ),
    query: Type.Object(
      {
        userAddress: Type.Optional(address({ description: 'The user' })),
        ...chainOfContract,
      },
      closed,
    ),
    body: Type.Object({ userAddress: Type.Optional(address({ description: 'The user' })) }, closed),
    bodyOptional: true,
    shownBody: Type.Object({ userAddress: address({ description: 'The user' }) }, closed),
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
        return reject('INVALID_FIELD', 'userAddress', 'userAddress differs between body and query')
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
