/** `GET /api/v1/trades/{marketId}`: the newest trades of a market. */

import Type from 'typebox'
import { checksumAddress } from '#domain/checksum-address.ts'
import type { MarketId } from '#domain/ids.ts'
import { TRADES_LISTED_MAX } from '#domain/limits.ts'
import { latestTrades, type MarketBoard, type ShownTrade } from '../market-board.ts'
import { MARKET_ID, TRADER } from '../order-examples.ts'
import { marketIdParam } from '../order-shapes.ts'
import { type AnswerRoute, route } from '../route.ts'

const TradeShape = Type.Object(
  {
    tradeId: Type.String(),
    price: Type.Integer(),
    size: Type.Integer(),
    buyer: Type.String(),
    seller: Type.String(),
    outcome: Type.Integer({ description: '0 = YES, 1 = NO' }),
    timestamp: Type.Integer({ description: 'Unix seconds' }),
    txHash: Type.String({ description: 'Empty until it is on its way to the chain' }),
    status: Type.String({ description: 'matched, submitted, confirmed, failed or reverted' }),
    seq: Type.Integer({ description: 'The market’s sequence; trades of one order share it' }),
  },
  { title: 'Trade' },
)

export function listTrades(parts: {
  readonly board: MarketBoard
  /** Older trades, from the database. */
  readonly storedTrades: (marketId: MarketId, limit: number) => Promise<ShownTrade[]>
}): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/trades/{marketId}',
    auth: 'public',
    cost: 'read',
    tag: 'markets',
    summary: 'The newest trades of a market',
    description: 'Up to 100, newest first. A market that nobody knows has none.',
    params: Type.Object({ marketId: marketIdParam() }, { additionalProperties: false }),
    responses: {
      200: Type.Object({
        marketId: Type.String(),
        trades: Type.Array(TradeShape),
        count: Type.Integer(),
      }),
    },
    examples: {
      responses: {
        200: {
          'one trade': {
            value: {
              marketId: MARKET_ID,
              trades: [
                {
                  tradeId: `${MARKET_ID}-17-0`,
                  price: 430_000,
                  size: 2_500_000,
                  buyer: TRADER,
                  seller: '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC',
                  outcome: 0,
                  timestamp: 1_800_000_000,
                  txHash: '',
                  status: 'matched',
                  seq: 17,
                },
              ],
              count: 1,
            },
          },
        },
      },
    },
    async handle({ path }) {
      const shown = parts.board.markets.get(path.marketId)
      const enough = (shown?.trades.size ?? 0) >= TRADES_LISTED_MAX
      const stored = enough ? [] : await parts.storedTrades(path.marketId, TRADES_LISTED_MAX)
      const trades = latestTrades(shown, stored, TRADES_LISTED_MAX).map((trade) => ({
        tradeId: trade.tradeId,
        price: trade.price,
        size: trade.size,
        buyer: checksumAddress(trade.buyer),
        seller: checksumAddress(trade.seller),
        outcome: trade.outcome,
        timestamp: Math.floor(trade.matchedAtMs / 1_000),
        txHash: trade.txHash,
        status: trade.status,
        seq: trade.seq,
      }))
      return { status: 200, body: { marketId: path.marketId, trades, count: trades.length } }
    },
  })
}
