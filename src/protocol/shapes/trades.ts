/**
 * Trades in REST and the stream. A new field of a trade is declared here, and written by `api/markets/trade-pages.ts`.
 */

import Type from 'typebox'
import { FILL_KINDS, TRADE_STATUSES } from '#domain/trade.ts'
import { type Answer, outcome, side, TRADE_ID, word } from './fields.ts'

/** The fields that do not change after the match. The stream has the same ones. */
const matched = {
  tradeId: Type.String({ description: TRADE_ID }),
  price: Type.Integer({ description: '6 decimals' }),
  size: Type.Integer({ description: 'Shares, 6 decimals' }),
  buyer: Type.String(),
  seller: Type.String(),
  outcome: outcome(),
  kind: Type.Optional(
    word(
      FILL_KINDS,
      'Only in complementary markets. mint: both sides bought, the buyer this outcome at this price, and the seller ' +
        'the other outcome at 1 minus this price. merge: both sides sold, the seller this outcome, the buyer the other',
    ),
  ),
}
export type MatchedField = keyof typeof matched

const takerSide = side('The taker: 0 = buyer, 1 = seller')

const fields = {
  ...matched,
  timestamp: Type.Integer({ description: 'Unix seconds' }),
  txHash: Type.String({ description: 'Empty until the trade is sent to the chain' }),
  status: word(TRADE_STATUSES, 'matched, submitted, confirmed, failed or reverted'),
  seq: Type.Integer({ description: 'The market’s sequence number; trades of one order share it' }),
}

/** A trade in the stream: its time is in milliseconds, and messages add further fields. */
export const streamTrade = {
  ...matched,
  takerSide,
  ts: Type.Integer({ description: 'Unix milliseconds' }),
}

export const Trade = Type.Object(fields, { title: 'Trade' })
export type Trade = Answer<typeof Trade>

export const MarketActivity = Type.Object({ ...fields, takerSide }, { title: 'MarketActivity' })
export type MarketActivity = Answer<typeof MarketActivity>
