/** Trades as REST and the stream show them. A new field of a trade is declared here. */

import Type from 'typebox'
import { TRADE_STATUSES } from '#domain/trade.ts'
import { type Answer, outcome, side, word } from './fields.ts'

export const tradeStatus = () =>
  word(TRADE_STATUSES, 'matched, submitted, confirmed, failed or reverted')

const fields = {
  tradeId: Type.String({ description: 'market, sequence, fill' }),
  price: Type.Integer({ description: '6 decimals' }),
  size: Type.Integer({ description: 'Shares, 6 decimals' }),
  buyer: Type.String(),
  seller: Type.String(),
  outcome: outcome(),
  timestamp: Type.Integer({ description: 'Unix seconds' }),
  txHash: Type.String({ description: 'Empty until it is on its way to the chain' }),
  status: tradeStatus(),
  seq: Type.Integer({ description: 'The market’s sequence; trades of one order share it' }),
}

export const Trade = Type.Object(fields, { title: 'Trade' })
export type Trade = Answer<typeof Trade>

export const MarketActivity = Type.Object(
  { ...fields, takerSide: side('Who came second: 0 = buyer, 1 = seller') },
  { title: 'MarketActivity' },
)
