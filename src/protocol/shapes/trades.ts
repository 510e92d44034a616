/**
 * Shapes of trades in REST and the stream. A new field of a trade is declared here, and written by
 * `api/markets/trade-pages.ts`.
 */

import Type from 'typebox'
import { FILL_KINDS, TRADE_STATUSES } from '#domain/trade.ts'
import { type Answer, outcome, side, TRADE_ID, word } from './fields.ts'

/** Fields of a trade that do not change after the match; the stream has the same fields. */
const matched = {
  tradeId: Type.String({ description: TRADE_ID }),
  price: Type.Integer({ description: 'Price of the trade, in millionths of a dollar' }),
  size: Type.Integer({ description: 'Size of the trade, in millionths of a share' }),
  buyer: Type.String(),
  seller: Type.String(),
  outcome: outcome(),
  kind: Type.Optional(
    word(
      FILL_KINDS,
      'Present only if two orders for different outcomes matched, in a complementary market. ' +
        '`mint`: both traders bought. The trader in `seller` bought the other outcome, at a ' +
        'dollar minus `price`. `merge`: both traders sold. The trader in `buyer` sold the other ' +
        'outcome, at a dollar minus `price`',
    ),
  ),
}
export type MatchedField = keyof typeof matched

const takerSide = side('Side of the taker: 0 = buyer, 1 = seller')

const fields = {
  ...matched,
  timestamp: Type.Integer({ description: 'Time of the match, in Unix seconds' }),
  txHash: Type.String({
    description: 'Hash of the settlement transaction; empty until the trade is sent to the chain',
  }),
  status: word(
    TRADE_STATUSES,
    'Status of the settlement: matched, submitted, confirmed, failed or reverted',
  ),
  seq: Type.Integer({
    description:
      'Sequence number of the match in the market. Several trades of one arriving order can have ' +
      'the same number',
  }),
}

/** A trade in the stream: its time is in milliseconds, and the messages of the stream add further fields. */
export const streamTrade = {
  ...matched,
  takerSide,
  ts: Type.Integer({ description: 'Time of the match, in Unix milliseconds' }),
}

export const Trade = Type.Object(fields, { title: 'Trade' })
export type Trade = Answer<typeof Trade>

export const MarketActivity = Type.Object({ ...fields, takerSide }, { title: 'MarketActivity' })
export type MarketActivity = Answer<typeof MarketActivity>
