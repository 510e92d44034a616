/**
 * `GET /api/v1/pending-trades`, `/api/v1/failed-trades` and `/api/v1/settlements/{txHash}`: progress of trades on their
 * way to the chain. The answers come from the database, which is updated after the markets.
 */

import Type, { type Static } from 'typebox'
import { checksumAddress } from '#domain/checksum-address.ts'
import {
  FAILED_TRADES_LISTED_HOURS,
  TRADES_OF_ALL_LISTED,
  TRADES_OF_ALL_LISTED_MAX,
} from '#domain/limits.ts'
import { isRejection } from '#domain/rejection.ts'
import type { Trade, TradeStatus } from '#domain/trade.ts'
import { type PagePlace, pageWeight, readPlace, writePlace } from '#http/page-place.ts'
import type { ReadCache } from '#http/read-cache.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { bytes32, safeInteger } from '#http/schemas.ts'
import { nextBefore, TRADE_ID } from '#protocol/shapes/fields.ts'
import { Trade as TradeShape } from '#protocol/shapes/trades.ts'
import { MARKET_ID, ORDER_HASH, TRADER } from '../orders/order-examples.ts'

/** A trade with its settlement status, as stored in the database. */
type StoredWay = Trade & {
  readonly status: TradeStatus
  readonly txHash: string
  readonly reason: string
  readonly attempts: number
  readonly failedAtMs: number | null
}

type Counted = {
  readonly trades: readonly StoredWay[]
  readonly count: number
  readonly next: PagePlace | undefined
}

export type SettlementSources = {
  readonly pending: (limit: number, before: PagePlace | undefined) => Promise<Counted>
  readonly failedSince: (
    sinceMs: number,
    limit: number,
    before: PagePlace | undefined,
  ) => Promise<Counted>
  /** Returns the status of a settlement transaction, as JSON. */
  readonly settlementJson: (txHash: string) => Promise<string>
  readonly cache: ReadCache
  readonly nowMs: () => number
}

const FAILED_WINDOW_MS = FAILED_TRADES_LISTED_HOURS * 60 * 60 * 1_000

const way = {
  tradeId: Type.String({ description: TRADE_ID }),
  marketId: Type.String(),
  outcome: Type.Integer({ description: 'Outcome: 0 = YES, 1 = NO' }),
  price: Type.Integer({ description: 'Price of the trade, in millionths of a dollar' }),
  size: Type.Integer({ description: 'Size of the trade, in millionths of a share' }),
  buyer: Type.String(),
  seller: Type.String(),
  buyOrderHash: Type.String(),
  sellOrderHash: Type.String(),
  kind: TradeShape.properties.kind,
  status: Type.String({
    description: 'Status of the settlement: matched, submitted, failed or reverted',
  }),
  matchedAt: Type.Integer({ description: 'Time of the match, in Unix seconds' }),
  txHash: Type.String({
    description:
      'Hash of the settlement transaction; empty if the trade was never sent to the chain',
  }),
  attempts: Type.Integer({ description: 'Number of times the trade was sent to the chain' }),
}

const PendingTrade = Type.Object(way, { title: 'PendingTrade' })

const FailedTrade = Type.Object(
  {
    ...way,
    reason: Type.String({
      description:
        'Reason why the trade failed: a name such as `InsufficientCollateral`, in some cases ' +
        'followed by a colon and details',
    }),
    failedAt: Type.Integer({ description: 'Time at which the trade failed, in Unix seconds' }),
  },
  { title: 'FailedTrade' },
)

const WAY_EXAMPLE = {
  tradeId: `${MARKET_ID}-17-0`,
  marketId: MARKET_ID,
  outcome: 0,
  price: 430_000,
  size: 2_500_000,
  buyer: TRADER,
  seller: '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC',
  buyOrderHash: ORDER_HASH,
  sellOrderHash: ORDER_HASH.replace('0x9c', '0x1d'),
  status: 'submitted',
  matchedAt: 1_800_000_000,
  txHash: ORDER_HASH.replace('0x9c', '0x77'),
  attempts: 1,
}

function wayBody(trade: StoredWay): Static<typeof PendingTrade> {
  return {
    tradeId: trade.tradeId,
    marketId: trade.marketId,
    outcome: trade.outcome,
    price: trade.price,
    size: trade.size,
    buyer: checksumAddress(trade.buyer),
    seller: checksumAddress(trade.seller),
    buyOrderHash: trade.buyOrderHash,
    sellOrderHash: trade.sellOrderHash,
    ...(trade.kind === undefined ? {} : { kind: trade.kind }),
    status: trade.status,
    matchedAt: Math.floor(trade.matchedAtMs / 1_000),
    txHash: trade.txHash,
    attempts: trade.attempts,
  }
}

const pageQuery = Type.Object(
  {
    limit: Type.Optional(
      safeInteger({
        min: 1,
        description: `Maximum number of trades; ${TRADES_OF_ALL_LISTED} by default, at most ${TRADES_OF_ALL_LISTED_MAX}`,
      }),
    ),
    before: Type.Optional(
      Type.String({ description: 'Value of `nextBefore` from the previous page' }),
    ),
  },
  { additionalProperties: false },
)

const limitOf = ({ limit = TRADES_OF_ALL_LISTED }: { readonly limit?: number }): number =>
  Math.min(limit, TRADES_OF_ALL_LISTED_MAX)

export function listPendingTrades({ pending, cache }: SettlementSources): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/pending-trades',
    operationId: 'listPendingTrades',
    auth: 'public',
    cost: 'read',
    weight: 2,
    weigh: pageWeight,
    tag: 'settlement',
    summary: 'List trades that are not final on the chain yet',
    description:
      'The list has the newest trades first. `count` is the total number of trades, on all pages.',
    cacheControl: 'no-cache',
    revalidates: true,
    query: pageQuery,
    responses: {
      200: Type.Object({ trades: Type.Array(PendingTrade), count: Type.Integer(), nextBefore }),
    },
    examples: {
      responses: {
        200: { 'one trade': { value: { trades: [WAY_EXAMPLE], count: 1, nextBefore: null } } },
      },
    },
    handle({ query }) {
      const before = readPlace(query.before)
      if (isRejection(before)) return before
      const limit = limitOf(query)
      return cache.read(`pending-trades/${limit}/${query.before ?? ''}`, async () => {
        const { trades, count, next } = await pending(limit, before)
        return { trades: trades.map(wayBody), count, nextBefore: writePlace(next) }
      })
    },
  })
}

export function listFailedTrades(ports: SettlementSources): AnswerRoute {
  const { failedSince, cache, nowMs } = ports
  return route({
    method: 'GET',
    path: '/api/v1/failed-trades',
    operationId: 'listFailedTrades',
    auth: 'public',
    cost: 'read',
    weight: 2,
    weigh: pageWeight,
    tag: 'settlement',
    summary: `List trades that failed to settle in the last ${FAILED_TRADES_LISTED_HOURS} hours`,
    description:
      'The list has the newest trades first. `count` is the total number of trades, on all ' +
      'pages. A failed trade has moved no money and no shares on the chain. The exchange cancels ' +
      'all open orders, in the same market, of a trader who caused the failure. The quantity of ' +
      'the trade returns to the order of a trader who did not cause it.',
    cacheControl: 'no-cache',
    revalidates: true,
    query: pageQuery,
    responses: {
      200: Type.Object({ trades: Type.Array(FailedTrade), count: Type.Integer(), nextBefore }),
    },
    examples: {
      responses: {
        200: {
          'one trade': {
            value: {
              trades: [
                {
                  ...WAY_EXAMPLE,
                  status: 'failed',
                  reason: 'InsufficientCollateral',
                  failedAt: 1_800_000_004,
                },
              ],
              count: 1,
              nextBefore: null,
            },
          },
        },
      },
    },
    handle({ query }) {
      const before = readPlace(query.before)
      if (isRejection(before)) return before
      const limit = limitOf(query)
      return cache.read(`failed-trades/${limit}/${query.before ?? ''}`, async () => {
        const sinceMs = nowMs() - FAILED_WINDOW_MS
        const found = await failedSince(sinceMs, limit, before)
        const trades = found.trades.map((trade) => ({
          ...wayBody(trade),
          reason: trade.reason,
          failedAt: Math.floor((trade.failedAtMs ?? 0) / 1_000),
        }))
        return { trades, count: found.count, nextBefore: writePlace(found.next) }
      })
    },
  })
}

const NotFound = Type.Object(
  { found: Type.Literal(false) },
  { title: 'SettlementNotFound', additionalProperties: false },
)

const Found = Type.Object(
  {
    found: Type.Literal(true),
    txHash: Type.String({
      description:
        'Hash under which the transaction was mined; until it is mined, the hash in the request',
    }),
    chainId: Type.Integer(),
    status: Type.String({
      description: 'Status of the settlement: submitted, confirmed or failed',
    }),
    blockNumber: Type.Union([Type.Integer(), Type.Null()]),
    confirmations: Type.Integer({
      description:
        'Number of blocks from the transaction’s block to the newest block, both included; 0 ' +
        'until the transaction is in a block',
    }),
    submittedAt: Type.Integer({
      description: 'Time at which the transaction was sent, in Unix seconds',
    }),
    confirmedAt: Type.Union([Type.Integer(), Type.Null()]),
    trades: Type.Array(Type.String(), {
      description: 'Ids (`tradeId`) of the trades in the transaction',
    }),
    error: Type.String({
      description:
        'Reason why the transaction failed, or why it is not mined yet; empty if there is none',
    }),
  },
  { title: 'Settlement' },
)

export function getSettlement({ settlementJson }: SettlementSources): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/settlements/{txHash}',
    operationId: 'getSettlement',
    auth: 'public',
    cost: 'read',
    weight: 3,
    tag: 'settlement',
    summary: 'Get the status of a settlement transaction',
    description:
      'To pay higher fees, the exchange can sign a transaction again. The transaction then has ' +
      'several hashes, and the request accepts each of them. If a whole transaction failed, the ' +
      'exchange sends its trades in another transaction.',
    cacheControl: 'no-cache',
    params: Type.Object(
      { txHash: bytes32({ description: 'Hash of the transaction' }) },
      { additionalProperties: false },
    ),
    responses: { 200: Type.Union([NotFound, Found]) },
    examples: {
      responses: {
        200: {
          confirmed: {
            value: {
              found: true,
              txHash: WAY_EXAMPLE.txHash,
              chainId: 31_337,
              status: 'confirmed',
              blockNumber: 118,
              confirmations: 3,
              submittedAt: 1_800_000_001,
              confirmedAt: 1_800_000_002,
              trades: [WAY_EXAMPLE.tradeId],
              error: '',
            },
          },
          unknown: { value: { found: false } },
        },
      },
    },
    async handle({ path: { txHash } }) {
      return { status: 200, raw: await settlementJson(txHash) }
    },
  })
}
